// The overlaps of all pairs of boxes, and their gradients, on a GPU.
//
// Forward: a thread keeps a box of the second set and goes through a few of the first, so what it reads it uses often
// and what neighbouring threads write lies side by side. Backward: the slopes of each box are summed over chunks of the
// other set, in an order that only sizes decide, and a second kernel adds up the chunks.
#include <opsmith/lanes.h>
#include <opsmith/workspace.h>

#include "pairwise.h"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / lanes;
constexpr int rows_each = 8;       // boxes of the first set that a thread goes through
constexpr int chunk_least = 1024;  // others that are a sum of their own

template <class C>
__device__ Box<C> read_box(const View<const C, 3>& boxes, int64_t batch, int64_t k, Format format) {
  const C* const from = boxes.data + batch * boxes.stride[0] + k * boxes.stride[1];
  const int64_t stride = boxes.stride[2];
  return Box<C>::of(format, from[0], from[stride], from[2 * stride], from[3 * stride]);
}

template <bool generalized, class C>
__global__ void __launch_bounds__(threads)
    find_overlaps(View<const C, 3> boxes1, View<const C, 3> boxes2, Format format, View<C, 3> out) {
  const int64_t rows = out.size[1], columns = out.size[2];
  const int64_t across = (columns + threads - 1) / threads, down = (rows + rows_each - 1) / rows_each;
  const int64_t pieces = out.size[0] * down * across;
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t column = piece % across * threads + threadIdx.x, band = piece / across;
    const int64_t first = band % down * rows_each, batch = band / down;
    if (column >= columns) continue;
    const Box<C> other = read_box(boxes2, batch, column, format);
    const C other_area = other.area();
    const int64_t end = first + rows_each < rows ? first + rows_each : rows;
    for (int64_t row = first; row < end; ++row) {
      const Box<C> own = read_box(boxes1, batch, row, format);
      out(batch, row, column) = overlap_of<generalized>(own, own.area(), other, other_area);
    }
  }
}

// One set, whose gradients are wanted, the other, and the gradients of their pairs: [batch, own, other].
template <class C>
struct SummedSide {
  View<const C, 3> own, others, gradients;
  Format format;
  int64_t chunk;  // others of a sum

  __host__ __device__ int64_t boxes() const { return own.size[0] * own.size[1]; }
  __host__ __device__ int64_t chunks() const {
    return others.size[1] > chunk ? (others.size[1] + chunk - 1) / chunk : 1;
  }

  // Adds the slopes of one pair.
  template <bool generalized>
  __device__ void add(const Box<C>& box, C area, int64_t batch, int64_t k, int64_t other, Slopes<C>& sum) const {
    const Box<C> one = read_box(others, batch, other, format);
    add_slopes<generalized>(box, area, one, one.area(), gradients(batch, k, other), sum);
  }
};

// Where the gradients of one box lie side by side: its pairs are divided among the lanes of a warp.
template <bool generalized, class C>
__global__ void __launch_bounds__(threads) sum_along_rows(SummedSide<C> side, Slopes<C>* sums) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t boxes = side.boxes(), items = boxes * side.chunks();
  for (int64_t item = int64_t{blockIdx.x} * warps + threadIdx.x / lanes; item < items;
       item += int64_t{gridDim.x} * warps) {
    const int64_t index = item % boxes, first = item / boxes * side.chunk;
    const int64_t batch = index / side.own.size[1], k = index % side.own.size[1];
    const int64_t behind = first + side.chunk < side.others.size[1] ? first + side.chunk : side.others.size[1];
    const Box<C> box = read_box(side.own, batch, k, side.format);
    const C area = box.area();
    Slopes<C> sum{};
    for (int64_t other = first + lane; other < behind; other += lanes) {
      side.template add<generalized>(box, area, batch, k, other, sum);
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      sum.x1 += shuffle_xor(sum.x1, mask);
      sum.y1 += shuffle_xor(sum.y1, mask);
      sum.x2 += shuffle_xor(sum.x2, mask);
      sum.y2 += shuffle_xor(sum.y2, mask);
      sum.area += shuffle_xor(sum.area, mask);
    }
    if (lane == 0) sums[item] = sum;
  }
}

// Where those of neighbouring boxes lie side by side: a lane has a box, and each warp of a block some of its pairs.
template <bool generalized, class C>
__global__ void __launch_bounds__(threads) sum_along_columns(SummedSide<C> side, Slopes<C>* sums) {
  __shared__ Slopes<C> parts[warps][lanes];
  const int lane = static_cast<int>(threadIdx.x) % lanes, warp = static_cast<int>(threadIdx.x) / lanes;
  const int64_t boxes = side.boxes(), groups = (boxes + lanes - 1) / lanes, items = groups * side.chunks();
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t index = item % groups * lanes + lane, first = item / groups * side.chunk;
    const int64_t behind = first + side.chunk < side.others.size[1] ? first + side.chunk : side.others.size[1];
    Slopes<C> sum{};
    if (index < boxes) {
      const int64_t batch = index / side.own.size[1], k = index % side.own.size[1];
      const Box<C> box = read_box(side.own, batch, k, side.format);
      const C area = box.area();
      for (int64_t other = first + warp; other < behind; other += warps) {
        side.template add<generalized>(box, area, batch, k, other, sum);
      }
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && index < boxes) {
      for (int other = 1; other < warps; ++other) {
        const Slopes<C> part = parts[other][lane];
        sum.x1 += part.x1;
        sum.y1 += part.y1;
        sum.x2 += part.x2;
        sum.y2 += part.y2;
        sum.area += part.area;
      }
      sums[item / groups * boxes + index] = sum;
    }
    __syncthreads();
  }
}

template <class C>
__global__ void __launch_bounds__(threads) add_chunks(SummedSide<C> side, const Slopes<C>* sums, View<C, 3> out) {
  const int64_t boxes = side.boxes();
  for (int64_t index = int64_t{blockIdx.x} * threads + threadIdx.x; index < boxes;
       index += int64_t{gridDim.x} * threads) {
    Slopes<C> sum = sums[index];
    for (int64_t chunk = 1; chunk < side.chunks(); ++chunk) {
      const Slopes<C> part = sums[chunk * boxes + index];
      sum.x1 += part.x1;
      sum.y1 += part.y1;
      sum.x2 += part.x2;
      sum.y2 += part.y2;
      sum.area += part.area;
    }
    const int64_t batch = index / side.own.size[1], k = index % side.own.size[1];
    sum.write(read_box(side.own, batch, k, side.format), side.format, &out(batch, k, 0), out.stride[2]);
  }
}

// How many others are a sum: all of them where there are boxes enough to fill a GPU.
inline int64_t chunk_of(int64_t boxes, int64_t others) {
  constexpr int64_t enough = 8192;  // sums of warps
  const int64_t wanted = boxes > enough ? 1 : enough / (boxes > 0 ? boxes : 1);
  const int64_t even = (others + wanted - 1) / wanted;
  return even > chunk_least ? even : chunk_least;
}

template <bool generalized, class C>
void launch_sums(SummedSide<C> side, const View<C, 3>& out, Stream stream) {
  side.chunk = chunk_of(side.boxes(), side.others.size[1]);
  const Workspace<Slopes<C>> sums(side.boxes() * side.chunks());
  if (side.gradients.stride[2] <= side.gradients.stride[1]) {
    const unsigned blocks = blocks_for(side.boxes() * side.chunks(), warps);
    sum_along_rows<generalized><<<blocks, threads, 0, stream>>>(side, sums.data);
  } else {
    const unsigned blocks = blocks_for((side.boxes() + lanes - 1) / lanes * side.chunks(), 1);
    sum_along_columns<generalized><<<blocks, threads, 0, stream>>>(side, sums.data);
  }
  add_chunks<<<blocks_for(side.boxes(), threads), threads, 0, stream>>>(side, sums.data, out);
}

// The same tensor with its last two dimensions exchanged.
template <class C>
View<const C, 3> transposed(const View<const C, 3>& from) {
  return {from.data, {from.size[0], from.size[2], from.size[1]}, {from.stride[0], from.stride[2], from.stride[1]}};
}

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void box_overlaps(View<const T, 3> boxes1, View<const T, 3> boxes2, const char* fmt, bool generalized,
                  View<T, 3> overlaps, Stream stream) {
  const Format format = read_format(fmt);
  if (overlaps.numel() == 0) return;
  const int64_t across = (boxes2.size[1] + threads - 1) / threads;
  const int64_t down = (boxes1.size[1] + rows_each - 1) / rows_each;
  const unsigned blocks = blocks_for(overlaps.size[0] * down * across, 1);
  with_kind(generalized, [&](auto kind) {
    find_overlaps<decltype(kind)::value><<<blocks, threads, 0, stream>>>(boxes1, boxes2, format, overlaps);
  });
  check_launch("box_overlaps");
}

template <class T>
void box_overlaps_backward(View<const T, 3> grad_overlaps, View<const T, 3> boxes1, View<const T, 3> boxes2,
                           const char* fmt, bool generalized, Needed, View<T, 3> grad_boxes1, View<T, 3> grad_boxes2,
                           Stream stream) {
  const Format format = read_format(fmt);
  with_kind(generalized, [&](auto kind) {
    constexpr bool fixed = decltype(kind)::value;
    if (grad_boxes1.numel() > 0) {
      launch_sums<fixed>(SummedSide<T>{boxes1, boxes2, grad_overlaps, format, 0}, grad_boxes1, stream);
    }
    if (grad_boxes2.numel() > 0) {
      launch_sums<fixed>(SummedSide<T>{boxes2, boxes1, transposed(grad_overlaps), format, 0}, grad_boxes2, stream);
    }
  });
  check_launch("box_overlaps_backward");
}
