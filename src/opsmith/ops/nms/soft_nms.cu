// Soft non-maximum suppression on a GPU, in one launch of one block.
//
// Which box is next depends on all before it, so there are as many steps as boxes are taken out. A step is a few
// operations for each box that is left, and the first of all scores; between the blocks of a GPU that would take a
// barrier of its own, longer than the step of a block for thousands of boxes. A thread has every 1,024th box. It
// keeps those that are left together, in memory that stays in the first-level cache, and so a step's time goes with
// the boxes that are left.
#include <opsmith/lanes.h>

#include <cstdint>

#include "../_gpu/first.cuh"
#include "soft_gpu.h"

namespace opsmith::ops::nms::soft_gpu {
namespace {

using soft::Method;
using soft::Rules;

constexpr int threads = lanes * lanes;  // so that one warp's lanes can hold what all warps have found

// A box that may be next: that of the lowest key, of several that of the lowest number.
template <class Key>
using Candidate = gpu::Candidate<Key, int32_t>;

template <class C>
__device__ Box<C> box_at(const Left<C>& left, int64_t k) {
  return {left.x1[k], left.y1[k], left.x2[k], left.y2[k]};
}

template <class C>
__device__ void move(const Left<C>& left, int64_t from, int64_t to) {
  left.x1[to] = left.x1[from], left.y1[to] = left.y1[from], left.x2[to] = left.x2[from], left.y2[to] = left.y2[from];
  left.area[to] = left.area[from], left.score[to] = left.score[from], left.index[to] = left.index[from];
}

template <Method method, class T>
__global__ void __launch_bounds__(threads)
    soft_kernel(View<const T, 2> boxes, View<const T, 1> scores, Rules<compute_t<T>> rules, Left<compute_t<T>> left,
                Result<T> result) {
  using C = compute_t<T>;
  using Key = decltype(score_key(C()));
  __shared__ Candidate<Key> of_warps[lanes];
  __shared__ Box<C> best;
  __shared__ C best_area;
  const int64_t n = boxes.size[0], most = result.dets.size[0];
  for (int64_t row = threadIdx.x; row < most; row += threads) {
    for (int column = 0; column < 5; ++column) result.dets(row, column) = static_cast<T>(C(0));
    result.inds[row] = -1;
  }

  // This thread's boxes: number `slot` of them is at threadIdx.x + slot * threads. No other thread reads them.
  int count = 0, own_slot = 0;
  constexpr Candidate<Key> nobody{static_cast<Key>(-1), 0};  // no score has this key
  Candidate<Key> own = nobody;
  for (int64_t k = threadIdx.x; k < n; k += threads, ++count) {
    const Box<C> box{static_cast<C>(boxes(k, 0)), static_cast<C>(boxes(k, 1)),
                     unfused::add(static_cast<C>(boxes(k, 2)), rules.offset),
                     unfused::add(static_cast<C>(boxes(k, 3)), rules.offset)};
    const C score = static_cast<C>(scores(k));
    left.x1[k] = box.x1, left.y1[k] = box.y1, left.x2[k] = box.x2, left.y2[k] = box.y2;
    left.area[k] = area_of(box), left.score[k] = score, left.index[k] = static_cast<int32_t>(k);
    const Candidate<Key> candidate{score_key(score), static_cast<int32_t>(k)};
    if (candidate.is_before(own)) own = candidate, own_slot = count;
  }

  int64_t taken = 0;
  for (; taken < most; ++taken) {
    const Candidate<Key> first = gpu::first_of_block(own, of_warps, threads / lanes, nobody);
    if (first.key == nobody.key) break;
    if (own.key == first.key && own.rank == first.rank) {
      const int64_t k = threadIdx.x + int64_t{own_slot} * threads;
      best = box_at(left, k);
      best_area = left.area[k];
      for (int corner = 0; corner < 4; ++corner) result.dets(taken, corner) = boxes(first.rank, corner);
      result.dets(taken, 4) = static_cast<T>(left.score[k]);
      result.inds[taken] = first.rank;
      --count;
      move(left, threadIdx.x + int64_t{count} * threads, k);
    }
    __syncthreads();
    own = nobody;
    for (int slot = 0; slot < count;) {
      const int64_t k = threadIdx.x + int64_t{slot} * threads;
      const C score = lowered<method>(best, best_area, box_at(left, k), left.area[k], left.score[k], rules);
      if (score < rules.min_score) {
        --count;
        move(left, threadIdx.x + int64_t{count} * threads, k);
        continue;
      }
      left.score[k] = score;
      const Candidate<Key> candidate{score_key(score), left.index[k]};
      if (candidate.is_before(own)) own = candidate, own_slot = slot;
      ++slot;
    }
  }
  if (threadIdx.x == 0) *result.count = taken;
}

}  // namespace

template <class T>
void suppress(Method method, View<const T, 2> boxes, View<const T, 1> scores, const Rules<compute_t<T>>& rules,
              const Left<compute_t<T>>& left, const Result<T>& result, void* stream) {
  const auto kernel = method == Method::naive    ? soft_kernel<Method::naive, T>
                      : method == Method::linear ? soft_kernel<Method::linear, T>
                                                 : soft_kernel<Method::gaussian, T>;
  kernel<<<1, threads, 0, static_cast<Stream>(stream)>>>(boxes, scores, rules, left, result);
  check_launch("soft_nms");
}

template void suppress(Method, View<const float16, 2>, View<const float16, 1>, const Rules<float>&, const Left<float>&,
                       const Result<float16>&, void*);
template void suppress(Method, View<const bfloat16, 2>, View<const bfloat16, 1>, const Rules<float>&,
                       const Left<float>&, const Result<bfloat16>&, void*);
template void suppress(Method, View<const float, 2>, View<const float, 1>, const Rules<float>&, const Left<float>&,
                       const Result<float>&, void*);
template void suppress(Method, View<const double, 2>, View<const double, 1>, const Rules<double>&, const Left<double>&,
                       const Result<double>&, void*);

}  // namespace opsmith::ops::nms::soft_gpu
