// What the GPU kernels read: pixels whose channels lie side by side, and where taps read them.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/workspace.h>

#include <type_traits>

#include "../_gpu/global_memory.cuh"
#include "deform_conv2d.h"

namespace opsmith::ops::deform_conv2d {
namespace {

template <class T>
constexpr bool is_half = sizeof(T) == 2;

// Factors come by steps of 64 bytes of summands, of which a thread brings 16 at once.
constexpr int step_bytes = 64, copy_bytes = 16;

constexpr int tile_threads = 256;
constexpr int vector_width = 8;  // elements that a thread brings at once: 16 bytes of a 16-bit type

// Blocks for n of them, in one dimension.
inline unsigned grid_of(int64_t blocks) {
  if (blocks >= int64_t{1} << 31) fail("deform_conv2d() on a GPU takes fewer than 2^31 tiles of outputs");
  return static_cast<unsigned>(blocks);
}

// Calls f with std::true_type where floats may be rounded to TF32, so that f knows it when it is compiled.
template <class T, class F>
void with_tf32(bool allowed, const F& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (allowed) return f(std::true_type{});
  }
  f(std::false_type{});
}

// Images with channels side by side: where a pixel is, in elements.
template <class T>
struct Pixels {
  const T* data;
  int64_t image, row, column;
  bool has_vectors;  // channels brought at once are of one group and offset group, and begin at a multiple of 16 bytes

  __device__ const T* at(int64_t n, int64_t y, int64_t x) const { return data + n * image + y * row + x * column; }
};

// What samples are made of, and where.
template <class T>
struct Sampler {
  using C = compute_t<T>;

  Convolution call;
  Pixels<T> pixels;
  View<const T, 4> offset, mask;

  // Where a tap of an offset group reads at a position, and the mask.
  __device__ Point<C> find(int64_t n, int position, int64_t offset_group, int tap, C& share) const {
    const unsigned width = static_cast<unsigned>(call.out_width), taps_x = static_cast<unsigned>(call.taps_x);
    const int64_t i = static_cast<unsigned>(position) / width, j = static_cast<unsigned>(position) % width;
    const int64_t channel = offset_group * call.taps() + tap;
    const C y = static_cast<C>(call.grid_y(i, static_cast<unsigned>(tap) / taps_x)) + C(offset(n, 2 * channel, i, j));
    const C x =
        static_cast<C>(call.grid_x(j, static_cast<unsigned>(tap) % taps_x)) + C(offset(n, 2 * channel + 1, i, j));
    share = mask ? C(mask(n, channel, i, j)) : C(1);
    return locate(y, x, call.height, call.width);
  }

  __device__ bool has(const Point<C>& point, int corner) const {
    const int64_t row = point.row(corner), column = point.column(corner);
    return row >= 0 && row < call.height && column >= 0 && column < call.width;
  }
};

constexpr int turned_side = 64;

// A tensor [N, C, H, W] as pixels, by tiles of 64 channels and 64 pixels that are turned in shared memory. They are
// read and written by 16 bytes where these are of one channel, or pixel (`reads_chunks`, `writes_chunks`).
template <class T>
__global__ void __launch_bounds__(tile_threads)
    turn_pixels(View<const T, 4> from, unsigned tiles, unsigned across, bool reads_chunks, bool writes_chunks, T* to) {
  constexpr int width = 16 / sizeof(T), chunks = turned_side / width;
  // Rows that begin in the next bank, at least.
  constexpr int row = turned_side + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
  alignas(16) __shared__ T tile[turned_side * row];
  const int64_t channels = from.size[1], pixels = from.size[2] * from.size[3];
  const int64_t n = blockIdx.x / across / tiles;
  const int64_t channel = int64_t{blockIdx.x % across} * turned_side;
  const int64_t pixel = int64_t{blockIdx.x / across % tiles} * turned_side;
  if (reads_chunks) {
#pragma unroll
    for (int i = 0; i < turned_side * chunks / tile_threads; ++i) {
      const int k = i * tile_threads + threadIdx.x, c = k / chunks, p = k % chunks * width;
      if (channel + c >= channels || pixel + p >= pixels) continue;
      const T* const line = from.data + n * from.stride[0] + (channel + c) * from.stride[1] + pixel + p;
      const auto words = *reinterpret_cast<const Vector<uint32_t, 4>*>(line);
      // A row begins at a multiple of four bytes.
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        reinterpret_cast<uint32_t*>(tile + c * row + p)[word] = words.item[word];
      }
    }
  } else {
    const int p = threadIdx.x % turned_side;
    const int64_t y = (pixel + p) / from.size[3], x = (pixel + p) % from.size[3];
    for (int c = threadIdx.x / turned_side; c < turned_side; c += tile_threads / turned_side) {
      if (channel + c < channels && pixel + p < pixels) tile[c * row + p] = from(n, channel + c, y, x);
    }
  }
  __syncthreads();
  if (writes_chunks) {
#pragma unroll
    for (int i = 0; i < turned_side * chunks / tile_threads; ++i) {
      const int k = i * tile_threads + threadIdx.x, p = k / chunks, c = k % chunks * width;
      if (channel + c >= channels || pixel + p >= pixels) continue;
      Vector<T, width> values;
#pragma unroll
      for (int item = 0; item < width; ++item) values.item[item] = tile[(c + item) * row + p];
      gpu::store_16_bytes(to + (n * pixels + pixel + p) * channels + channel + c,
                          bit_cast<Vector<uint32_t, 4>>(values));
    }
  } else {
    const int c = threadIdx.x % turned_side;
    for (int p = threadIdx.x / turned_side; p < turned_side; p += tile_threads / turned_side) {
      if (channel + c < channels && pixel + p < pixels) {
        to[(n * pixels + pixel + p) * channels + channel + c] = tile[c * row + p];
      }
    }
  }
}

// A tensor as pixels: as it is where its channels lie side by side, else by a copy, for which `room` has the size.
template <class T>
Pixels<T> pixels_of(const View<const T, 4>& tensor, bool eights, T* room, Stream stream) {
  constexpr int width = 16 / sizeof(T);
  const int64_t channels = tensor.size[1], height = tensor.size[2], wide = tensor.size[3];
  if (room == nullptr) {
    const bool aligned = is_aligned(tensor.data, 16) && tensor.stride[0] % width == 0 &&
                         tensor.stride[2] % width == 0 && tensor.stride[3] % width == 0;
    return {tensor.data, tensor.stride[0], tensor.stride[2], tensor.stride[3], eights && aligned};
  }
  if (tensor.numel() > 0) {
    const int64_t tiles = divide_up(height * wide, turned_side), across = divide_up(channels, turned_side);
    const unsigned blocks = grid_of(tensor.size[0] * tiles * across);
    const bool reads_chunks = tensor.stride[3] == 1 && (tensor.stride[2] == wide || height == 1) &&
                              height * wide % width == 0 && is_aligned(tensor.data, 16) &&
                              tensor.stride[0] % width == 0 && tensor.stride[1] % width == 0;
    turn_pixels<T><<<blocks, tile_threads, 0, stream>>>(
        tensor, static_cast<unsigned>(tiles), static_cast<unsigned>(across), reads_chunks, channels % width == 0, room);
  }
  return {room, height * wide * channels, wide * channels, channels, eights};
}

// How many elements the copy of a tensor as pixels has; none where the tensor needs no copy.
template <class T>
int64_t copy_size(const View<const T, 4>& tensor) {
  return tensor.stride[1] == 1 || tensor.size[1] == 1 ? 0 : tensor.numel();
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
