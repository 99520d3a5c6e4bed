// What roi_pool works out on a GPU before it pools: the pixels of each box's bins, and which kernels serve a call.
//
// How large boxes are is known on the device alone, and asking for it would have the host wait. So the kernels of both
// ways are launched, and the one that is not taken exits at once.
#pragma once

#include <opsmith/early_launch.h>
#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

constexpr int plan_threads = 512;
constexpr int most_plan_bins = 16;  // along an axis

// How the pixels of a row of a bin are read: in `steps` of `at_once` pixels. All bins of a box take as many, which
// keeps the lanes of a warp together.
struct RowSteps {
  static constexpr int most = 4;
  int steps, at_once;

  __device__ explicit RowSteps(int columns)
      : steps((columns + most - 1) / most), at_once(steps == 0 ? 0 : (columns + steps - 1) / steps) {}
};

// What all blocks read of a box.
struct PlannedBox {
  int image, at_once;  // as in RowSteps; negative where there are several steps
};

// In memory of a call, pair by pair: whether it is one of large boxes, and of each box a PlannedBox and the pixels of
// its rows of bins and of its columns.
struct Plan {
  struct alignas(8) Pair {
    int32_t first, second;
  };
  static constexpr int box_pairs = sizeof(PlannedBox) / sizeof(Pair);
  Pair* data;
  int boxes, rows, columns;

  int64_t pairs() const { return 1 + int64_t{boxes} * (box_pairs + rows + columns); }

  __device__ Pair* of_box(int64_t k) const { return data + 1 + k * (box_pairs + rows + columns); }
  __device__ PlannedBox& box(int64_t k) const { return *reinterpret_cast<PlannedBox*>(of_box(k)); }
  __device__ Pair& pair(int64_t k, bool is_row, int index) const {
    return of_box(k)[box_pairs + (is_row ? index : rows + index)];
  }
  __device__ Range row(int64_t k, int i) const { return range_of(pair(k, true, i)); }
  __device__ Range column(int64_t k, int j) const { return range_of(pair(k, false, j)); }
  __device__ static Range range_of(const Pair& pair) { return {pair.first, pair.second}; }

  // Whether most of the work is in large boxes. Not read through the first-level cache: kernels that come up early ask.
  __device__ bool is_of_large() const { return *static_cast<const volatile int32_t*>(&data->first) != 0; }
};

// To begin a kernel with that is launched behind that of small boxes: whether it has anything to do. What was written
// before is there then. The plan is there before: no kernel behind it comes up until it is.
//
// With `is_next_for_large` the kernel behind this one begins in the same way, so it may come up without waiting: where
// there is nothing to do, all of them are over before that of small boxes is.
__device__ inline bool is_for_large(const Plan& plan, bool is_next_for_large) {
  if (is_next_for_large) let_next_kernel_come_up();
  if (plan.is_of_large()) {
    wait_for_earlier_kernels();
    return true;
  }
  // One block waits: kernels behind this one wait for this one alone.
  if (blockIdx.x == 0 && blockIdx.y == 0) wait_for_earlier_kernels();
  return false;
}

// How many pixels the bins of a box have, roughly: those on the edge between two are of both.
__device__ inline float work_of(const Roi& roi, const Pooling& pooling) {
  const auto along = [](const Side& side, int64_t bins) {
    const auto count = static_cast<float>(bins);
    return fminf(side.bin * count, static_cast<float>(side.size)) + count;
  };
  return roi.image < 0 ? 0 : along(roi.y, pooling.out_height) * along(roi.x, pooling.out_width);
}

// Says whether the boxes have as much work as large ones; to be called by all threads of a block.
__device__ inline void plan_call(const View<const float, 2>& boxes, const Pooling& pooling, const Plan& plan,
                                 float large_work) {
  __shared__ float of_warp[plan_threads / lanes];
  const int thread = static_cast<int>(threadIdx.x);
  float work[1] = {0};
#pragma unroll 1
  for (int64_t k = thread; k < boxes.size[0]; k += plan_threads) {
    work[0] += work_of(pooling.read_roi(boxes, k), pooling);
  }
  const float sum = sum_over_lanes<1>(work, thread % lanes);
  if (thread % lanes == 0) of_warp[thread / lanes] = sum;
  __syncthreads();
  if (thread != 0) return;
  float all = 0;
  for (const float one : of_warp) all += one;
  *plan.data = {all > large_work, 0};
}

// A warp takes a box: its first half the rows of bins, the other one the columns.
__device__ inline void plan_box(const View<const float, 2>& boxes, const Pooling& pooling, int64_t k,
                                const Plan& plan) {
  static_assert(2 * most_plan_bins == lanes);
  const int lane = static_cast<int>(threadIdx.x) % lanes, index = lane % most_plan_bins;
  const Roi roi = pooling.read_roi(boxes, k);
  const bool is_row = lane < most_plan_bins;
  const Range range =
      Side{is_row ? roi.y.start : roi.x.start, is_row ? roi.y.bin : roi.x.bin, is_row ? roi.y.size : roi.x.size}.range(
          index);
  const bool is_bin = index < (is_row ? plan.rows : plan.columns);
  int most = is_bin ? range.high - range.low : 0;
#pragma unroll
  for (int mask = most_plan_bins / 2; mask > 0; mask /= 2) most = max(most, shuffle_xor(most, mask));
  if (is_bin) plan.pair(k, is_row, index) = {range.low, range.high};
  if (lane == most_plan_bins) {
    const RowSteps by(most);
    plan.box(k) = {roi.image < 0 ? 0 : static_cast<int>(roi.image), by.steps > 1 ? -by.at_once : by.at_once};
  }
}

// The first block plans the call, and the others its boxes.
__global__ void __launch_bounds__(plan_threads)
    plan_pooling(View<const float, 2> boxes, Pooling pooling, Plan plan, float large_work) {
  let_next_kernel_come_up();
  if (blockIdx.x == 0) {
    plan_call(boxes, pooling, plan, large_work);
    return;
  }
  constexpr int warps = plan_threads / lanes;
#pragma unroll 1
  for (int64_t k = int64_t{blockIdx.x - 1} * warps + threadIdx.x / lanes; k < boxes.size[0];
       k += int64_t{gridDim.x - 1} * warps) {
    plan_box(boxes, pooling, k, plan);
  }
}

// Boxes are large ones if their bins have more pixels together than `large_work`.
inline void launch_plan(const View<const float, 2>& boxes, const Pooling& pooling, const Plan& plan, float large_work,
                        Stream stream) {
  const unsigned blocks = 1 + blocks_for(boxes.size[0], plan_threads / lanes);
  plan_pooling<<<blocks, plan_threads, 0, stream>>>(boxes, pooling, plan, large_work);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
