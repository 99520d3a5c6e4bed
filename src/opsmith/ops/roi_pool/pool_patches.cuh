// roi_pool on a GPU, for small boxes: a block copies the pixels of one to shared memory, and makes its bins from there.
//
// The blocks of all boxes take 128 bytes of channels before the next ones, so that what boxes have in common is read
// from the second-level cache.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/lanes.h>

#include "../_gpu/shared_memory.cuh"
#include "patch_bins.cuh"
#include "patch_results.cuh"

namespace opsmith::ops::roi_pool {
namespace {

constexpr int patch_pixels = 320;    // that a block has room for
constexpr int most_patched = 1000;   // pixels of a box, which is made in several patches
constexpr int most_patch_bins = 16;  // along an axis
constexpr int patch_blocks = 3;      // that share a multiprocessor

// Results that are not written as vectors.
template <class T, bool vectors>
struct PatchResults {
  StagedResults<T, patch_channels<T>> element;
  StagedResults<int32_t, patch_channels<T>> place;
};
template <class T>
struct PatchResults<T, true> {};

template <class T, bool vectors>
struct PatchMemory {
  Vector<T, patch_width<T>> pixel[patch_pixels * patch_pitch];
  PatchResults<T, vectors> results;
  Range row[most_patch_bins], column[most_patch_bins];
  int rows, columns;            // of bins
  int most_rows, most_columns;  // of a bin's pixels
  int64_t image;

  // Finds the pixels of the bins of a box. To be called by all threads; it ends with a barrier.
  __device__ void find_ranges(const View<const float, 2>& boxes, const Pooling& pooling, int64_t k) {
    const int thread = static_cast<int>(threadIdx.x), index = thread % most_patch_bins;
    static_assert(2 * most_patch_bins == lanes);
    if (thread < lanes) {
      const Roi roi = pooling.read_roi(boxes, k);
      const bool is_row = thread < most_patch_bins;
      const Range range =
          Side{is_row ? roi.y.start : roi.x.start, is_row ? roi.y.bin : roi.x.bin, is_row ? roi.y.size : roi.x.size}
              .range(index);
      const int bins = static_cast<int>(is_row ? pooling.out_height : pooling.out_width);
      int most = index < bins ? range.high - range.low : 0;
#pragma unroll
      for (int mask = most_patch_bins / 2; mask > 0; mask /= 2) most = max(most, shuffle_xor(most, mask));
      (is_row ? row : column)[index] = range;
      if (index == 0) (is_row ? rows : columns) = bins, (is_row ? most_rows : most_columns) = most;
      if (thread == 0) image = roi.image < 0 ? 0 : roi.image;
    }
    __syncthreads();
  }
  __device__ int left() const { return column[0].low; }
  __device__ int wide() const { return column[columns - 1].high - left(); }
  // Whether the box is to be made from patches: a row of its bins has to fit one.
  __device__ bool is_small() const {
    const int64_t high = row[rows - 1].high - row[0].low, most_high = most_rows;
    return high * wide() <= most_patched && most_high * wide() <= patch_pixels;
  }
  // How many rows of bins from `first` on fit a patch and the room for results; at least one.
  __device__ int rows_from(int first) const {
    int count = 1;
    while (first + count < rows && (vectors || (count + 1) * columns <= patch_results) &&
           (row[first + count].high - row[first].low) * wide() <= patch_pixels) {
      ++count;
    }
    return count;
  }
};

// Makes a lane's channels of a bin. The patch begins in row `top`.
template <bool vectors, class T>
__device__ void make_bin(const PatchMemory<T, vectors>& memory, const RowSteps& steps, int top, int i, int j, int own,
                         int image_width, compute_t<T> (&element)[patch_width<T>], int32_t (&place)[patch_width<T>]) {
  constexpr int width = patch_width<T>;
#pragma unroll
  for (int c = 0; c < width; ++c) element[c] = compute_t<T>{0}, place[c] = -1;
  const Range y = memory.row[i], x = memory.column[j];
  if (y.low >= y.high || x.low >= x.high) return;
  const int wide = memory.wide(), first = (y.low - top) * wide + x.low - memory.left();
  const BinPixels<width, T> bin{memory.pixel + first * patch_pitch + own,
                                y.high - y.low,
                                x.high - x.low,
                                wide * patch_pitch,
                                y.low * image_width + x.low,
                                image_width};
  find_largest(bin, steps, element, place);
}

// The grid's x counts boxes, and its y channels. `is_left` says of each box whether it is left to other kernels.
// `flat`: as in write_results.
template <bool vectors, class T>
__global__ void __launch_bounds__(patch_threads, patch_blocks)
    pool_patches(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, PlaneSteps plane, bool flat,
                 View<T, 4> out, View<int32_t, 4> argmax, uint8_t* is_left) {
  constexpr int width = patch_width<T>;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<PatchMemory<T, vectors>*>(bytes);
  const int own = static_cast<int>(threadIdx.x) % patch_lanes, image_width = static_cast<int>(pooling.width);
#pragma unroll 1
  for (int64_t k = blockIdx.x; k < out.size[0]; k += gridDim.x) {
    __syncthreads();  // all are done with the last box
    memory.find_ranges(boxes, pooling, k);
    if (blockIdx.y == 0 && threadIdx.x == 0) is_left[k] = !memory.is_small();
    if (!memory.is_small()) continue;
    const RowSteps steps(memory.most_columns);
    const int columns = memory.columns;
    const Quotients row_of(columns);
#pragma unroll 1
    for (int64_t channel = int64_t{blockIdx.y} * patch_channels<T>; channel < out.size[1];
         channel += int64_t{gridDim.y} * patch_channels<T>) {
      const T* const from = features.data + memory.image * features.stride[0] + channel * features.stride[1];
      const int64_t left = out.size[1] - channel;
      const int count = left < patch_channels<T> ? static_cast<int>(left) : patch_channels<T>;
#pragma unroll 1
      for (int first = 0, rows; first < memory.rows; first += rows) {
        rows = memory.rows_from(first);
        const int top = memory.row[first].low;
        const Patch patch{top, memory.left(), memory.row[first + rows - 1].high - top, memory.wide()};
        __syncthreads();  // all are done with the last patch
        load_patch<vectors>(from, features.stride[1], plane, patch, count, memory.pixel);
        __syncthreads();
        const bool is_flat = flat && rows == memory.rows;
        // Channels lie an odd number of elements apart, where they can: a warp writes to all banks.
        const int bins = rows * columns, pitch = is_flat ? bins : bins | 1;
#pragma unroll 1
        for (int bin = static_cast<int>(threadIdx.x) / patch_lanes; bin < bins && own * width < count;
             bin += patch_threads / patch_lanes) {
          const int i = first + row_of.of(bin), j = bin - (i - first) * columns;
          compute_t<T> element[width];
          int32_t place[width];
          make_bin(memory, steps, top, i, j, own, image_width, element, place);
          if constexpr (vectors) {
            Channels<width, true>{1, width}.store(element, &out(k, channel + own * width, i, j));
            Channels<width, true>{1, width}.store(place, &argmax(k, channel + own * width, i, j));
          } else {
#pragma unroll
            for (int c = 0; c < width; ++c) {
              memory.results.element.item[(own * width + c) * pitch + bin] = static_cast<T>(element[c]);
              memory.results.place.item[(own * width + c) * pitch + bin] = place[c];
            }
          }
        }
        if constexpr (!vectors) {
          __syncthreads();
          write_results(memory.results.element.item, pitch, is_flat, count, rows, columns, &out(k, channel, first, 0),
                        out.stride[1], out.stride[2], out.stride[3]);
          write_results(memory.results.place.item, pitch, is_flat, count, rows, columns, &argmax(k, channel, first, 0),
                        argmax.stride[1], argmax.stride[2], argmax.stride[3]);
        }
      }
    }
  }
}

// Whether patches are the fastest way for a call, as far as its sizes tell. The features of a stride of 16 have few
// large boxes: a kernel that leaves many of them to the windows takes longer than these alone. Measured are images of
// 50 x 68 pixels, 7 x 7 bins, float32, and 256 and 1,024 boxes.
template <bool vectors, class T>
bool suit_patches(const View<const T, 4>& features, const View<T, 4>& out) {
  constexpr int64_t most_pixels = 8192, least_boxes = 256;
  return are_some_patched<T> && out.size[0] >= least_boxes && out.size[2] * out.size[3] <= patch_results &&
         out.size[2] <= most_patch_bins && out.size[3] <= most_patch_bins && features.numel() > 0 &&
         features.size[2] * features.size[3] <= most_pixels && has_plane_steps(features) &&
         gpu::most_shared_memory() >= static_cast<int>(sizeof(PatchMemory<T, vectors>));
}

// Makes the boxes that are small, and says of each whether it is left to others.
template <bool vectors, class T>
void launch_patches(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    const View<T, 4>& out, const View<int32_t, 4>& argmax, uint8_t* is_left, Stream stream) {
  constexpr int bytes = sizeof(PatchMemory<T, vectors>);
  const int64_t chunks = divide_up(out.size[1], patch_channels<T>);
  const dim3 grid{blocks_for(out.size[0], 1), static_cast<unsigned>(chunks < 65535 ? chunks : 65535)};
  const bool flat = !vectors && are_flat(out, patch_channels<T>) && are_flat(argmax, patch_channels<T>);
  const auto kernel = pool_patches<vectors, T>;
  gpu::allow_shared_memory(kernel, bytes);
  kernel<<<grid, patch_threads, bytes, stream>>>(features, boxes, pooling, plane_steps(features), flat, out, argmax,
                                                 is_left);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
