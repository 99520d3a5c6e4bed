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
  // Zeros are around each image, a pixel to each side, and below them is a row of zeros more: so all pixels around a
  // point are there, and for a point outside they are those from the left end of the row below the image.
  bool has_margin;

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
    const unsigned width = static_cast<unsigned>(call.out_width);
    return find(n, static_cast<unsigned>(position) / width, static_cast<unsigned>(position) % width, offset_group, tap,
                share);
  }
  __device__ Point<C> find(int64_t n, int64_t i, int64_t j, int64_t offset_group, int tap, C& share) const {
    const unsigned taps_x = static_cast<unsigned>(call.taps_x);
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

// Writes a tensor [N, C, H, W] as pixels, by tiles of 64 channels and 64 pixels that are turned in shared memory, a
// block each. They are read and written by 16 bytes where these are of one channel, or pixel (`reads_chunks`,
// `writes_chunks`). Other blocks set the margin to zero, if there is one.
template <class T>
struct PixelTurn {
  static constexpr int width = 16 / sizeof(T);

  View<const T, 4> from;
  T* to;  // the first pixel
  int64_t row, image;
  unsigned tiles, across, turning_blocks, blocks;  // none where the tensor needs no copy
  bool reads_chunks, writes_chunks;

  PixelTurn(const View<const T, 4>& tensor, T* room, bool has_margin)
      : from(tensor),
        to(room),
        row((tensor.size[3] + (has_margin ? 2 : 0)) * tensor.size[1]),
        image((tensor.size[2] + (has_margin ? 2 : 0)) * row),
        tiles(grid_of(divide_up(tensor.size[2] * tensor.size[3], turned_side))),
        across(grid_of(divide_up(tensor.size[1], turned_side))),
        turning_blocks(room == nullptr ? 0 : grid_of(tensor.size[0] * tiles * across)),
        blocks(turning_blocks),
        writes_chunks(tensor.size[1] % width == 0) {
    const int64_t height = tensor.size[2], wide = tensor.size[3];
    reads_chunks = tensor.stride[3] == 1 && (tensor.stride[2] == wide || height == 1) && height * wide % width == 0 &&
                   is_aligned(tensor.data, 16) && tensor.stride[0] % width == 0 && tensor.stride[1] % width == 0;
    if (has_margin && turning_blocks > 0) {
      to += row + tensor.size[1];
      blocks = grid_of(int64_t{turning_blocks} + blocks_for(margin_chunks(), tile_threads));
    }
  }

  // How many elements there must be room for. With a margin the last 128 bytes of channels may end behind it.
  static int64_t size(const View<const T, 4>& tensor, bool has_margin) {
    if (!has_margin) return tensor.numel();
    const int64_t wide = tensor.size[3] + 2;
    return (tensor.size[0] * (tensor.size[2] + 2) + 1) * wide * tensor.size[1] + 8 * width;
  }

  __device__ void run(unsigned block) const {
    if (block < turning_blocks) {
      turn(block);
    } else {
      clear(block - turning_blocks);
    }
  }

 private:
  // Above and below each image, beside it, and the row below all of them; channels are a multiple of a chunk.
  OPSMITH_HOST_DEVICE int64_t margin_pixels() const { return 2 * (from.size[3] + 2) + 2 * from.size[2]; }
  OPSMITH_HOST_DEVICE int64_t margin_chunks() const {
    return (from.size[0] * margin_pixels() + from.size[3] + 2) * (from.size[1] / width);
  }

  __device__ void turn(unsigned block) const;
  __device__ void clear(unsigned block) const;
};

template <class T>
__device__ void PixelTurn<T>::clear(unsigned block) const {
  const int64_t chunks = from.size[1] / width, height = from.size[2], wide = from.size[3] + 2;
  for (int64_t k = int64_t{block} * tile_threads + threadIdx.x; k < margin_chunks();
       k += int64_t{blocks - turning_blocks} * tile_threads) {
    const int64_t n = k / chunks / margin_pixels(), pixel = k / chunks % margin_pixels();
    int64_t y = pixel < wide ? -1 : height, x = pixel % wide - 1;
    if (pixel >= 2 * wide) {
      y = (pixel - 2 * wide) / 2;
      x = pixel % 2 == 0 ? -1 : wide - 2;
    }
    gpu::store_16_bytes(to + n * image + y * row + x * from.size[1] + k % chunks * width, {});
  }
}

template <class T>
__device__ void PixelTurn<T>::turn(unsigned block) const {
  constexpr int chunks = turned_side / width;
  // Rows that begin in the next bank, at least.
  constexpr int line = turned_side + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
  alignas(16) __shared__ T tile[turned_side * line];
  const int64_t channels = from.size[1], pixels = from.size[2] * from.size[3];
  const int64_t n = block / across / tiles;
  const int64_t channel = int64_t{block % across} * turned_side;
  const int64_t pixel = int64_t{block / across % tiles} * turned_side;
  if (reads_chunks) {
#pragma unroll
    for (int i = 0; i < turned_side * chunks / tile_threads; ++i) {
      const int k = i * tile_threads + threadIdx.x, c = k / chunks, p = k % chunks * width;
      if (channel + c >= channels || pixel + p >= pixels) continue;
      const T* const first = from.data + n * from.stride[0] + (channel + c) * from.stride[1] + pixel + p;
      const auto words = *reinterpret_cast<const Vector<uint32_t, 4>*>(first);
      // A row begins at a multiple of four bytes.
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        reinterpret_cast<uint32_t*>(tile + c * line + p)[word] = words.item[word];
      }
    }
  } else {
    const int p = threadIdx.x % turned_side;
    const int64_t y = (pixel + p) / from.size[3], x = (pixel + p) % from.size[3];
    for (int c = threadIdx.x / turned_side; c < turned_side; c += tile_threads / turned_side) {
      if (channel + c < channels && pixel + p < pixels) tile[c * line + p] = from(n, channel + c, y, x);
    }
  }
  __syncthreads();
  const bool is_dense = row == from.size[3] * channels;
  const auto place = [&](int64_t index) {
    T* const own = to + n * image;
    if (is_dense) return own + index * channels;
    const unsigned position = static_cast<unsigned>(index), across_image = static_cast<unsigned>(from.size[3]);
    return own + position / across_image * row + position % across_image * channels;
  };
  if (writes_chunks) {
#pragma unroll
    for (int i = 0; i < turned_side * chunks / tile_threads; ++i) {
      const int k = i * tile_threads + threadIdx.x, p = k / chunks, c = k % chunks * width;
      if (channel + c >= channels || pixel + p >= pixels) continue;
      Vector<T, width> values;
#pragma unroll
      for (int item = 0; item < width; ++item) values.item[item] = tile[(c + item) * line + p];
      gpu::store_16_bytes(place(pixel + p) + channel + c, bit_cast<Vector<uint32_t, 4>>(values));
    }
  } else {
    const int c = threadIdx.x % turned_side;
    for (int p = threadIdx.x / turned_side; p < turned_side; p += tile_threads / turned_side) {
      if (channel + c < channels && pixel + p < pixels) {
        place(pixel + p)[channel + c] = tile[c * line + p];
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(tile_threads) turn_pixels(PixelTurn<T> turn) {
  turn.run(blockIdx.x);
}

// A tensor as pixels, where its channels lie side by side.
template <class T>
Pixels<T> pixels_in_place(const View<const T, 4>& tensor, bool eights) {
  constexpr int width = 16 / sizeof(T);
  const bool aligned = is_aligned(tensor.data, 16) && tensor.stride[0] % width == 0 && tensor.stride[2] % width == 0 &&
                       tensor.stride[3] % width == 0;
  return {tensor.data, tensor.stride[0], tensor.stride[2], tensor.stride[3], eights && aligned, false};
}

// The pixels that are turned or, where there is no room for them, those of the tensor.
template <class T>
Pixels<T> pixels_of(const PixelTurn<T>& turn, bool eights, bool has_margin) {
  if (turn.to == nullptr) return pixels_in_place(turn.from, eights);
  return {turn.to, turn.image, turn.row, turn.from.size[1], eights, has_margin};
}

// The same, turned by a kernel of their own into `room`, which may be null.
template <class T>
Pixels<T> pixels_of(const View<const T, 4>& tensor, bool eights, T* room, Stream stream) {
  const PixelTurn<T> turn(tensor, room, false);
  if (turn.blocks > 0) turn_pixels<T><<<turn.blocks, tile_threads, 0, stream>>>(turn);
  return pixels_of(turn, eights, false);
}

// How many elements the copy of a tensor as pixels has; none where the tensor needs no copy.
template <class T>
int64_t copy_size(const View<const T, 4>& tensor) {
  return tensor.stride[1] == 1 || tensor.size[1] == 1 ? 0 : tensor.numel();
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
