// roi_pool on a GPU, for many boxes: a block makes the bins that begin in one window of an image.
//
// Boxes cover an image many times over, and reading each box from memory is what a kernel that takes them one by one
// waits for. Here a block copies a window of some channels to shared memory once, and makes those bins whose first
// pixel is in the window's own part; the rest of the window is there for the pixels of bins that reach beyond. What
// reaches even further is left to pool.cuh.
#pragma once

#include "../_gpu/shared_memory.cuh"
#include "pool_patches.cuh"
#include "window_bins.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::grid_of, boxes::tile_images, boxes::Tiling;

// The grid's z shares out the boxes. Those that are not `is_left` have been made elsewhere, with `is_some_made`.
template <bool vectors, bool is_some_made, class T>
__global__ void __launch_bounds__(window_threads)
    pool_windows(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Tiling tiling,
                 const uint8_t* is_left, View<T, 4> out, View<int32_t, 4> argmax) {
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<WindowMemory<T>*>(bytes);
  const int quad = threadIdx.x % quads;
  const unsigned share = (tiling.pieces + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * share;
  const unsigned end = begin + share < tiling.pieces ? begin + share : tiling.pieces;
  if (begin >= end) return;
  if constexpr (is_some_made) {
    bool is_any = false;
#pragma unroll 1
    for (int64_t k = threadIdx.x; k < out.size[0]; k += window_threads) is_any = is_any || is_left[k];
    if (!__syncthreads_or(is_any)) return;
  }
#pragma unroll 1
  for (unsigned image = blockIdx.y; image < pooling.images; image += gridDim.y) {
#pragma unroll 1
    for (unsigned part = blockIdx.x; part < tiling.parts; part += gridDim.x) {
      const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
      const Window window{image, static_cast<int>(place / tiling.across) * own_rows,
                          static_cast<int>(place % tiling.across) * own_columns, int64_t{chunk} * window_channels<T>};
      const int64_t left = out.size[1] - window.channel - quad * lane_channels<T>;
      const int count = left < 0 ? 0 : left < lane_channels<T> ? static_cast<int>(left) : lane_channels<T>;
      __syncthreads();  // all are done with the last window
      load_window<vectors>(features, window, quad, count, memory);
#pragma unroll 1
      for (unsigned next = begin; next < end;) {
        next = list_begun(boxes, pooling, tiling, window, next, end, is_some_made ? is_left : nullptr, memory);
        gpu::wait_for_copies();
        __syncthreads();
        make_bins<vectors>(boxes, pooling, tiling, window, count, memory, out, argmax);
      }
    }
  }
}

// Makes the bins of up to `most_of_bin` pixels along both axes, and returns whether it has: a call with few boxes,
// which do not meet in windows, and a GPU with less shared memory are for pool.cuh alone. `is_left`: of each box,
// whether it is not made yet; nullptr where none is.
template <bool vectors, class T>
bool launch_windows(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    const uint8_t* is_left, const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  constexpr int bytes = sizeof(WindowMemory<T>);
  if (features.numel() == 0 || gpu::most_shared_memory() < bytes) return false;
  const Tiling tiling = tile_images("roi_pool", features, out, own_rows, own_columns, window_channels<T>);
  const int64_t windows = tiling.parts / tiling.chunks * pooling.images;
  if (out.size[0] < windows) return false;
  dim3 grid = grid_of(tiling, pooling.images);
  // Where there are few windows, several blocks take the same one for some of the boxes each.
  const int64_t blocks = int64_t{grid.x} * grid.y, batches = tiling.pieces / window_batch;
  grid.z = static_cast<unsigned>(blocks >= 256 || batches < 2 ? 1 : 256 / blocks < batches ? 256 / blocks : batches);
  const auto launch = [&](const auto kernel) {
    gpu::allow_shared_memory(kernel, bytes);
    kernel<<<grid, window_threads, bytes, stream>>>(features, boxes, pooling, tiling, is_left, out, argmax);
  };
  if constexpr (are_some_patched<T>) {
    is_left != nullptr ? launch(pool_windows<vectors, true, T>) : launch(pool_windows<vectors, false, T>);
  } else {
    launch(pool_windows<vectors, false, T>);
  }
  return true;
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
