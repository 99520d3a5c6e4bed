// How boxes are put in order by their scores on a GPU, and by class where there are classes: keys for PyTorch's stable
// sort, and for a few thousand boxes one launch that counts.
#include <opsmith/early_launch.h>

#include "nms_gpu.h"
#include "overlap.h"

namespace opsmith::ops::nms::hard_gpu {
namespace {

constexpr int threads = 256;
constexpr int order_threads = 1024;
constexpr int boxes_in_order = 32;  // boxes of one block that puts them in order

template <class T>
__global__ void __launch_bounds__(threads) key_kernel(View<const T, 1> scores, void* keys) {
  using C = compute_t<T>;
  for (int64_t k = blockIdx.x * int64_t{threads} + threadIdx.x; k < scores.size[0]; k += gridDim.x * int64_t{threads}) {
    // The sort takes signed numbers.
    const auto key = score_key(static_cast<C>(scores(k)));
    if constexpr (sizeof(C) == 4) {
      static_cast<uint32_t*>(keys)[k] = key ^ 0x80000000u;
    } else {
      static_cast<uint64_t*>(keys)[k] = key ^ 0x8000000000000000u;
    }
  }
}

// Puts box number `from` at place k.
template <class T>
__device__ void put(const View<const T, 2>& boxes, const Work<compute_t<T>>& work, int64_t k, int64_t from) {
  using C = compute_t<T>;
  const Box<C> box{static_cast<C>(boxes(from, 0)), static_cast<C>(boxes(from, 1)), static_cast<C>(boxes(from, 2)),
                   static_cast<C>(boxes(from, 3))};
  reinterpret_cast<Vector<C, 4>*>(work.boxes)[k] = {{box.x1, box.y1, box.x2, box.y2}};
  work.areas[k] = area_of(box);
  work.removed[k] = 0;
  if (work.kept != nullptr) work.kept[k] = 0;
}

// The result of no boxes, for all that follows to write over.
template <class C>
__device__ void begin_result(const Work<C>& work) {
  const int64_t first = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (first == 0) *work.progress = {}, *work.count = 0;
  for (int64_t place = first; place < work.most; place += gridDim.x * int64_t{blockDim.x}) work.indices[place] = -1;
}

template <class T>
__global__ void __launch_bounds__(threads) gather_kernel(View<const T, 2> boxes, Work<compute_t<T>> work) {
  let_next_kernel_come_up();
  begin_result(work);
  for (int64_t k = blockIdx.x * int64_t{threads} + threadIdx.x; k < work.n; k += gridDim.x * int64_t{threads}) {
    put(boxes, work, k, work.order[work.by_class != nullptr ? work.by_class[k] : k]);
  }
}

// A block finds the places of 32 boxes. All others pass through shared memory, 1,024 at a time, and each warp compares
// the 32 boxes, one for each of its threads, with a part of these.
template <class T>
__global__ void __launch_bounds__(order_threads) order_kernel(View<const T, 2> boxes, View<const T, 1> scores,
                                                              View<const int64_t, 1> idxs, Work<compute_t<T>> work) {
  using C = compute_t<T>;
  let_next_kernel_come_up();
  begin_result(work);
  __shared__ int ranks[boxes_in_order], places[boxes_in_order];
  __shared__ decltype(score_key(C())) keys[order_threads];
  __shared__ int64_t classes[order_threads];
  const int lane = threadIdx.x % boxes_in_order, slice = threadIdx.x / boxes_in_order;
  const int n = static_cast<int>(work.n), box = blockIdx.x * boxes_in_order + lane;
  if (slice == 0) ranks[lane] = places[lane] = 0;
  if (n == 0) return;
  const bool has_classes = static_cast<bool>(idxs);
  const int own_box = box < n ? box : n - 1;
  const auto own = score_key(static_cast<C>(scores(own_box)));
  const int64_t own_class = has_classes ? idxs(own_box) : 0;
  int rank = 0, place = 0;
  for (int first = 0; first < n; first += order_threads) {
    __syncthreads();
    const int mine = first + threadIdx.x;
    if (mine < n) keys[threadIdx.x] = score_key(static_cast<C>(scores(mine)));
    if (mine < n && has_classes) classes[threadIdx.x] = idxs(mine);
    __syncthreads();
    const int begin = slice * boxes_in_order;
    const int end = begin + boxes_in_order < n - first ? begin + boxes_in_order : n - first;
#pragma unroll 8
    for (int k = begin; k < end; ++k) {
      const bool is_before = (keys[k] < own) | ((keys[k] == own) & (first + k < box));
      rank += is_before;
      if (has_classes) place += (classes[k] < own_class) | ((classes[k] == own_class) & is_before);
    }
  }
  atomicAdd(&ranks[lane], rank);
  atomicAdd(&places[lane], place);
  __syncthreads();
  if (box >= n || slice != 0) return;
  rank = ranks[lane];
  place = has_classes ? places[lane] : rank;
  work.order[rank] = box;
  if (has_classes) work.by_class[place] = rank, work.classes[place] = own_class;
  put(boxes, work, place, box);
}

}  // namespace

template <class T>
void write_keys(View<const T, 1> scores, void* keys, void* stream) {
  key_kernel<<<blocks_for(scores.size[0], threads), threads, 0, static_cast<Stream>(stream)>>>(scores, keys);
  check_launch("nms");
}

template <class T>
void gather(View<const T, 2> boxes, const Work<compute_t<T>>& work, void* stream) {
  gather_kernel<<<blocks_for(work.n, threads), threads, 0, static_cast<Stream>(stream)>>>(boxes, work);
  check_launch("nms");
}

template <class T>
void order_and_gather(View<const T, 2> boxes, View<const T, 1> scores, View<const int64_t, 1> idxs,
                      const Work<compute_t<T>>& work, void* stream) {
  const unsigned blocks = blocks_for(work.n, boxes_in_order);
  order_kernel<<<blocks, order_threads, 0, static_cast<Stream>(stream)>>>(boxes, scores, idxs, work);
  check_launch("nms");
}

template void write_keys(View<const float16, 1>, void*, void*);
template void write_keys(View<const bfloat16, 1>, void*, void*);
template void write_keys(View<const float, 1>, void*, void*);
template void write_keys(View<const double, 1>, void*, void*);
template void gather(View<const float16, 2>, const Work<float>&, void*);
template void gather(View<const bfloat16, 2>, const Work<float>&, void*);
template void gather(View<const float, 2>, const Work<float>&, void*);
template void gather(View<const double, 2>, const Work<double>&, void*);
template void order_and_gather(View<const float16, 2>, View<const float16, 1>, View<const int64_t, 1>,
                               const Work<float>&, void*);
template void order_and_gather(View<const bfloat16, 2>, View<const bfloat16, 1>, View<const int64_t, 1>,
                               const Work<float>&, void*);
template void order_and_gather(View<const float, 2>, View<const float, 1>, View<const int64_t, 1>, const Work<float>&,
                               void*);
template void order_and_gather(View<const double, 2>, View<const double, 1>, View<const int64_t, 1>,
                               const Work<double>&, void*);

}  // namespace opsmith::ops::nms::hard_gpu
