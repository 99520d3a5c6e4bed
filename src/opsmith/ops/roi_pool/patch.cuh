// The pixels of a small box in shared memory, of some channels.
//
// Neighbouring bins of a small box share pixels, and its rows are a few elements each. A block copies them once, from
// features in any layout, and puts 128 bytes of channels of a pixel side by side: then eight lanes make a bin of all
// these channels, and what an address, a weight and a loop take is shared by the channels of a lane.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

#include "../_boxes/channels.cuh"
#include "../_gpu/async_copy.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Channels;

// The types whose small boxes are made from patches. Others work too, but are not known to be faster so.
template <class T>
constexpr bool are_some_patched = std::is_same_v<T, float>;

constexpr int patch_threads = 256;
constexpr int patch_lanes = 8;  // of a pixel or a bin, each with a vector of 16 bytes
// Vectors from pixel to pixel. One more than there are: eight lanes that write a vector of eight pixels use all banks,
// as eight lanes do that read a pixel.
constexpr int patch_pitch = patch_lanes + 1;

// Channels of a lane, and of a patch.
template <class T>
constexpr int patch_width = 16 / sizeof(T);
template <class T>
constexpr int patch_channels = patch_lanes * patch_width<T>;

// A rectangle of an image, whose pixels are counted row by row.
struct Patch {
  int top, left, rows, columns;

  __device__ int pixels() const { return rows * columns; }
};

// Divides n by a number d, exactly where n < 2^12 and n * d < 2^20.
struct Quotients {
  unsigned inverse;

  __device__ explicit Quotients(int divisor)
      : inverse(((1u << 20) + static_cast<unsigned>(divisor) - 1) / static_cast<unsigned>(divisor)) {}
  __device__ int of(int n) const { return static_cast<int>(static_cast<unsigned>(n) * inverse >> 20); }
};

// The strides of an image's rows and columns, in 32 bits.
struct PlaneSteps {
  int down, across;
};

// Whether offsets in a plane have 31 bits.
template <class T>
bool has_plane_steps(const View<T, 4>& tensor) {
  constexpr int64_t most = (int64_t{1} << 30) - 1;
  const int64_t down = tensor.stride[2], across = tensor.stride[3];
  return down >= 0 && across >= 0 && tensor.size[2] <= most / (down + 1) && tensor.size[3] <= most / (across + 1);
}

template <class T>
PlaneSteps plane_steps(const View<T, 4>& tensor) {
  return {static_cast<int>(tensor.stride[2]), static_cast<int>(tensor.stride[3])};
}

// Copies a patch of `count` channels from `from` on, which is in its image's first pixel. To be called by all threads,
// and followed by a barrier. With `vectors` channels lie side by side, and `count` is a multiple of a lane's.
template <bool vectors, class T>
__device__ void load_patch(const T* from, int64_t beside, const PlaneSteps& steps, const Patch& patch, int count,
                           Vector<T, patch_width<T>>* to) {
  constexpr int width = patch_width<T>;
  const Quotients row_of(max(patch.columns, 1));
  const auto offset_of = [&](int pixel) {
    const int row = row_of.of(pixel), column = pixel - row * patch.columns;
    return (patch.top + row) * steps.down + (patch.left + column) * steps.across;
  };
  const int pixels = patch.pixels(), thread = static_cast<int>(threadIdx.x);
  if constexpr (vectors) {
    const int own = thread % patch_lanes;
    if (own * width < count) {
#pragma unroll 2
      for (int pixel = thread / patch_lanes; pixel < pixels; pixel += patch_threads / patch_lanes) {
        gpu::copy_async(to + pixel * patch_pitch + own, from + own * width + offset_of(pixel));
      }
    }
    gpu::wait_for_copies();
  } else {
    // A warp has the channels of a lane, and its lanes the pixels, which lie side by side in most features.
    static_assert(patch_threads == patch_lanes * lanes);
    constexpr int at_once = 16 / width;  // sixteen loads are on their way before the first is used
    const int own = thread / lanes, left = count - own * width;
    from += own * width * beside, to += own;
    const auto copy = [&](const Channels<width, false>& channels) {
#pragma unroll 1
      for (int first = thread % lanes; first < pixels; first += at_once * lanes) {
        Vector<T, width> value[at_once];
#pragma unroll
        for (int q = 0; q < at_once; ++q) {
          if (first + q * lanes < pixels) value[q] = channels.read(from + offset_of(first + q * lanes));
        }
#pragma unroll
        for (int q = 0; q < at_once; ++q) {
          if (first + q * lanes < pixels) to[(first + q * lanes) * patch_pitch] = value[q];
        }
      }
    };
    if (left >= width) {
      copy({beside, width});
    } else if (left > 0) {
      copy({beside, left});
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
