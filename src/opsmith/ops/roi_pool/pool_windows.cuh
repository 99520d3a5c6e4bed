// roi_pool on a GPU, for many boxes: a block makes the bins that begin in one window of an image.
//
// Boxes cover an image many times over, and reading each box from memory is what a kernel that takes them one by one
// waits for. Here a block copies a window of some channels to shared memory once, and makes those bins whose first
// pixel is in the window's own part; the rest of the window is there for the pixels of bins that reach beyond. What
// reaches even further is left to pool.cuh.
#pragma once

#include "../_gpu/shared_memory.cuh"
#include "plan.cuh"
#include "window_bins.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::tile_images, boxes::Tiling;

// The next turn of a block, which is a window of one part of the boxes. With a plan, blocks draw turns until there are
// none left: where there is nothing to do only as many have to exit as the GPU runs at once. To be called by all
// threads, and followed by a barrier before they call it again.
__device__ inline int64_t next_turn(const Plan& plan, int64_t turn, int& drawn) {
  if (plan.data == nullptr) return turn + gridDim.x;
  if (threadIdx.x == 0) drawn = atomicAdd(plan.turns(), 1);
  __syncthreads();
  return int64_t{gridDim.x} + drawn;
}

// `shares`: into how many the boxes are divided. Does nothing where the plan is for small boxes.
template <bool vectors, class T>
__global__ void __launch_bounds__(window_threads)
    pool_windows(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Tiling tiling, unsigned shares,
                 Plan plan, View<T, 4> out, View<int32_t, 4> argmax) {
  if (!is_for_large(plan)) return;
  extern __shared__ __align__(16) char bytes[];
  auto& memory = *reinterpret_cast<WindowMemory<T>*>(bytes);
  const int quad = threadIdx.x % quads;
  const int64_t windows = tiling.parts * pooling.images;
  const unsigned share = (tiling.pieces + shares - 1) / shares;
#pragma unroll 1
  for (int64_t turn = blockIdx.x; turn < windows * shares; turn = next_turn(plan, turn, memory.drawn)) {
    const unsigned begin = static_cast<unsigned>(turn / windows) * share;
    const unsigned end = begin + share < tiling.pieces ? begin + share : tiling.pieces;
    const unsigned image = static_cast<unsigned>(turn % windows / tiling.parts);
    const unsigned part = static_cast<unsigned>(turn % tiling.parts);
    const unsigned chunk = part % tiling.chunks, place = part / tiling.chunks;
    const Window window{image, static_cast<int>(place / tiling.across) * own_rows,
                        static_cast<int>(place % tiling.across) * own_columns, int64_t{chunk} * window_channels<T>};
    const int64_t left = out.size[1] - window.channel - quad * lane_channels<T>;
    const int count = left < 0 ? 0 : left < lane_channels<T> ? static_cast<int>(left) : lane_channels<T>;
    __syncthreads();  // all are done with the last window
    if (begin >= end) continue;
    load_window<vectors>(features, window, quad, count, memory);
#pragma unroll 1
    for (unsigned next = begin; next < end;) {
      next = list_begun(boxes, pooling, tiling, window, next, end, memory);
      gpu::wait_for_copies();
      __syncthreads();
      make_bins<vectors>(boxes, pooling, tiling, window, count, memory, out, argmax);
    }
  }
}

inline int count_multiprocessors() {
  int device = 0, count = 1;
#if defined(__HIPCC__)
  (void)hipGetDevice(&device);
  (void)hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device);
#else
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
#endif
  return count;
}

// Makes the bins of up to `most_of_bin` pixels along both axes, unless the plan is for small boxes. Returns whether it
// has been launched: a call with few boxes, which do not meet in windows, and a GPU with less shared memory are for
// pool.cuh alone.
template <bool vectors, class T>
bool launch_windows(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    const Plan& plan, const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  constexpr int bytes = sizeof(WindowMemory<T>);
  if (features.numel() == 0 || gpu::most_shared_memory() < bytes) return false;
  const Tiling tiling = tile_images("roi_pool", features, out, own_rows, own_columns, window_channels<T>);
  const int64_t windows = tiling.parts / tiling.chunks * pooling.images;
  if (out.size[0] < windows) return false;
  // Where there are few windows, several blocks take the same one for some of the boxes each.
  const int64_t turns = tiling.parts * pooling.images, batches = tiling.pieces / window_batch;
  const int64_t shares = turns >= 256 || batches < 2 ? 1 : 256 / turns < batches ? 256 / turns : batches;
  // A multiprocessor has room for one block.
  const int64_t most = plan.data != nullptr ? count_multiprocessors() : turns * shares;
  const unsigned blocks = blocks_for(turns * shares < most ? turns * shares : most, 1);
  gpu::allow_shared_memory(pool_windows<vectors, T>, bytes);
  launch_early<pool_windows<vectors, T>>("roi_pool_sized", blocks, window_threads, bytes, stream, features, boxes,
                                         pooling, tiling, static_cast<unsigned>(shares), plan, out, argmax);
  return true;
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
