// The gradients of the overlaps of all pairs of boxes, on a GPU.
//
// The slopes of each box are summed over chunks of the other set, in an order that only sizes decide; where there are
// several chunks, a second kernel adds them up.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/lanes.h>
#include <opsmith/workspace.h>

#include "pairs.cuh"

namespace opsmith::ops::box_pairs {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / lanes;
constexpr int least_each = 4;  // pairs that a thread adds up, at least
constexpr int64_t enough_warps = 8192;
// Many boxes have fewer lanes each where there are few others, so that what is done once a box is little.
constexpr int few_lanes = 8, few_others = 256;

// How many rounds of a loop are written out. Not those of double: few call it, and its divisions are long.
template <class C, int rounds>
constexpr int unrolled = std::is_same_v<C, float> ? rounds : 1;

// One set, whose gradients are wanted, the other, and the gradients of their pairs: [batch, own, other].
template <class C>
struct SummedSide {
  Boxes<C> own, others;
  View<const C, 3> gradients;
  View<C, 3> out;
  Slopes<C>* sums;  // [chunk, batch, own]
  int64_t chunk;    // others of a sum

  __host__ __device__ int64_t boxes() const { return own.batches() * own.count(); }
  __host__ __device__ int64_t chunks() const { return others.count() > chunk ? divide_up(others.count(), chunk) : 1; }

  // Adds up the slopes of box `index` by the others [first, behind), of which this thread takes each `step`th.
  template <bool generalized>
  __device__ Slopes<C> add_up(int64_t index, int64_t first, int64_t behind, int step) const {
    const int64_t batch = own.batches() == 1 ? 0 : index / own.count(), k = index - batch * own.count();
    const Box<C> box = own(batch, k);
    const C area = box.area();
    const C* gradient = &gradients(batch, k, first);
    const C* from = others.address(batch, first);
    const int64_t gradient_step = step * gradients.stride[2], box_step = step * others.numbers.stride[1];
    Slopes<C> sum{};
#pragma unroll(unrolled<C, least_each>)
    for (int left = static_cast<int>(behind - first); left > 0; left -= step) {
      const Box<C> one = others.read(from);
      add_slopes<generalized>(box, area, one, one.area(), *gradient, sum);
      from += box_step;
      gradient += gradient_step;
    }
    return sum;
  }

  __device__ int64_t behind(int64_t first) const {
    return first + chunk < others.count() ? first + chunk : others.count();
  }

  // Takes the sum of a chunk, which is the gradient where there is no other.
  __device__ void take(int64_t index, int64_t chunk_index, const Slopes<C>& sum) const {
    if (chunks() > 1) {
      sums[chunk_index * boxes() + index] = sum;
    } else {
      write(index, sum);
    }
  }

  __device__ void write(int64_t index, const Slopes<C>& sum) const {
    const int64_t batch = own.batches() == 1 ? 0 : index / own.count(), k = index - batch * own.count();
    sum.write(own(batch, k), own.format, &out(batch, k, 0), out.stride[2]);
  }
};

template <class C>
__device__ void add_to(Slopes<C>& sum, const Slopes<C>& part) {
  sum.x1 += part.x1;
  sum.y1 += part.y1;
  sum.x2 += part.x2;
  sum.y2 += part.y2;
  sum.area += part.area;
}

// The sum over `each` adjacent lanes, for the first of them.
template <int each, class C>
__device__ Slopes<C> sum_of_lanes(const Slopes<C>& own, int lane) {
  C values[8] = {own.x1, own.y1, own.x2, own.y2, own.area, C(0), C(0), C(0)};
  const C sum = sum_over_lanes<8, each / 2>(values, lane);  // of eight lanes each has one
  const int first = lane / each * each;
  return {shuffle(sum, first), shuffle(sum, first + each / 8), shuffle(sum, first + each / 4),
          shuffle(sum, first + 3 * each / 8), shuffle(sum, first + each / 2)};
}

// Where the gradients of one box lie side by side: its pairs are divided among `each` lanes of a warp.
template <bool generalized, int each, class C>
__global__ void __launch_bounds__(threads) sum_along_rows(SummedSide<C> side) {
  constexpr int at_once = threads / each;
  const int lane = static_cast<int>(threadIdx.x) % lanes, part = lane % each;
  const int64_t boxes = side.boxes(), items = boxes * side.chunks();
  for (int64_t first_item = int64_t{blockIdx.x} * at_once; first_item < items; first_item += gridDim.x * at_once) {
    const int64_t item = first_item + threadIdx.x / each;
    const int64_t chunk = side.chunks() == 1 ? 0 : item / boxes, index = item - chunk * boxes;
    Slopes<C> sum{};
    if (item < items) {
      const int64_t first = chunk * side.chunk;
      sum = side.template add_up<generalized>(index, first + part, side.behind(first), each);
    }
    sum = sum_of_lanes<each>(sum, lane);  // by all lanes
    if (part == 0 && item < items) side.take(index, chunk, sum);
  }
}

// Where those of neighbouring boxes lie side by side: a lane has a box, and each warp of a block some of its pairs.
template <bool generalized, class C>
__global__ void __launch_bounds__(threads) sum_along_columns(SummedSide<C> side) {
  __shared__ Slopes<C> parts[warps][lanes];
  const int lane = static_cast<int>(threadIdx.x) % lanes, warp = static_cast<int>(threadIdx.x) / lanes;
  const int64_t boxes = side.boxes(), groups = divide_up(boxes, lanes), items = groups * side.chunks();
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t chunk = item / groups, index = (item - chunk * groups) * lanes + lane, first = chunk * side.chunk;
    if (index < boxes) {
      parts[warp][lane] = side.template add_up<generalized>(index, first + warp, side.behind(first), warps);
    }
    __syncthreads();
    if (warp == 0 && index < boxes) {
      Slopes<C> sum = parts[0][lane];
      for (int other = 1; other < warps; ++other) add_to(sum, parts[other][lane]);
      side.take(index, chunk, sum);
    }
    __syncthreads();
  }
}

template <class C>
__global__ void __launch_bounds__(threads) add_chunks(SummedSide<C> side) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t boxes = side.boxes(), chunks = side.chunks();
  for (int64_t index = int64_t{blockIdx.x} * warps + threadIdx.x / lanes; index < boxes;
       index += int64_t{gridDim.x} * warps) {
    Slopes<C> sum{};
    for (int64_t chunk = lane; chunk < chunks; chunk += lanes) add_to(sum, side.sums[chunk * boxes + index]);
    sum = sum_of_lanes<lanes>(sum, lane);
    if (lane == 0) side.write(index, sum);
  }
}

// How many others are a sum. All of them where there are boxes enough to fill a GPU, each worked on by `warps_each`
// warps; `least` where there are few.
inline int64_t chunk_of(int64_t boxes, int64_t others, double warps_each, int64_t least) {
  const auto wanted = static_cast<int64_t>(static_cast<double>(enough_warps) / warps_each / static_cast<double>(boxes));
  const int64_t even = divide_up(others, wanted > 1 ? wanted : 1);
  return even > least ? even : least;
}

// boxes1 is the set whose gradients are wanted, the first of the pairs.
template <bool generalized, class C>
void launch_sums(const Boxes<C>& boxes1, const Boxes<C>& boxes2, const View<const C, 3>& gradients,
                 const View<C, 3>& out, Stream stream) {
  const bool along_rows = gradients.stride[2] <= gradients.stride[1];
  SummedSide<C> side{boxes1, boxes2, gradients, out, nullptr, 1};
  const int64_t boxes = side.boxes();
  side.chunk = along_rows ? chunk_of(boxes, boxes2.count(), 1, least_each * lanes)
                          : chunk_of(boxes, boxes2.count(), double{warps} / lanes, least_each * warps);
  const Workspace<Slopes<C>> sums(side.chunks() > 1 ? boxes * side.chunks() : 0);
  side.sums = sums.data;
  if (along_rows && boxes >= enough_warps && boxes2.count() <= few_others) {
    sum_along_rows<generalized, few_lanes><<<blocks_for(boxes, threads / few_lanes), threads, 0, stream>>>(side);
  } else if (along_rows) {
    const unsigned blocks = blocks_for(boxes * side.chunks(), warps);
    sum_along_rows<generalized, lanes><<<blocks, threads, 0, stream>>>(side);
  } else {
    const unsigned blocks = blocks_for(divide_up(boxes, lanes) * side.chunks(), 1);
    sum_along_columns<generalized><<<blocks, threads, 0, stream>>>(side);
  }
  if (side.chunks() > 1) add_chunks<<<blocks_for(boxes, warps), threads, 0, stream>>>(side);
}

// The same tensor with its last two dimensions exchanged.
template <class C>
View<const C, 3> transposed(const View<const C, 3>& from) {
  return {from.data, {from.size[0], from.size[2], from.size[1]}, {from.stride[0], from.stride[2], from.stride[1]}};
}

}  // namespace
}  // namespace opsmith::ops::box_pairs
