// The overlaps of all pairs of boxes, and their gradients, on a GPU.
#include "pairwise_sums.cuh"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int64_t enough_blocks = 1024;  // to fill a GPU a few times
constexpr int most_each = 8;             // pairs of a thread, where there are many

// An element of a [batch, row, column] tensor, or how far apart two are.
struct Place {
  int64_t batch, row, column;

  __host__ __device__ static Place of(int64_t index, int64_t rows, int64_t columns) {
    if ((index | rows | columns) >> 31 == 0) {  // a division of 64 bits takes longer than the rest
      const auto i = static_cast<uint32_t>(index), height = static_cast<uint32_t>(rows);
      const auto width = static_cast<uint32_t>(columns), line = i / width;
      return {line / height, line % height, i % width};
    }
    const int64_t line = index / columns;
    return {line / rows, line % rows, index % columns};
  }

  __device__ void add(const Place& step, int64_t rows, int64_t columns) {
    batch += step.batch;
    row += step.row;
    column += step.column;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
    if (row >= rows) {
      row -= rows;
      ++batch;
    }
  }
};

// A block has `threads * each` pairs that follow each other, and its threads take them in turn: what neighbouring
// threads write lies side by side, and few boxes are read by many of them.
template <bool generalized, int each, class C>
__global__ void __launch_bounds__(threads) find_overlaps(Boxes<C> boxes1, Boxes<C> boxes2, Place step, View<C, 3> out) {
  const int64_t rows = out.size[1], columns = out.size[2], pairs = out.size[0] * rows * columns;
  for (int64_t first = int64_t{blockIdx.x} * (threads * each); first < pairs;
       first += int64_t{gridDim.x} * (threads * each)) {
    int64_t left = pairs - first - threadIdx.x;
    Place at = Place::of(first + threadIdx.x, rows, columns);
#pragma unroll(unrolled<C, each>)
    for (int k = 0; k < each; ++k) {
      if (left > 0) {
        const Box<C> own = boxes1(at.batch, at.row), other = boxes2(at.batch, at.column);
        out(at.batch, at.row, at.column) = overlap_of<generalized>(own, own.area(), other, other.area());
      }
      left -= threads;
      at.add(step, rows, columns);
    }
  }
}

template <bool generalized, int each, class C>
void launch_overlaps(const Boxes<C>& boxes1, const Boxes<C>& boxes2, const View<C, 3>& out, Stream stream) {
  const Place step = Place::of(threads, out.size[1], out.size[2]);
  const unsigned blocks = blocks_for(out.numel(), threads * each);
  find_overlaps<generalized, each><<<blocks, threads, 0, stream>>>(boxes1, boxes2, step, out);
}

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void box_overlaps(View<const T, 3> boxes1, View<const T, 3> boxes2, const char* fmt, bool generalized,
                  View<T, 3> overlaps, Stream stream) {
  const Format format = read_format(fmt);
  if (overlaps.numel() == 0) return;
  const Boxes<T> first(boxes1, format), second(boxes2, format);
  with_kind(generalized, [&](auto kind) {
    constexpr bool fixed = decltype(kind)::value;
    if (overlaps.numel() >= enough_blocks * threads * most_each) {
      launch_overlaps<fixed, most_each>(first, second, overlaps, stream);
    } else {
      launch_overlaps<fixed, 1>(first, second, overlaps, stream);
    }
  });
  check_launch("box_overlaps");
}

template <class T>
void box_overlaps_backward(View<const T, 3> grad_overlaps, View<const T, 3> boxes1, View<const T, 3> boxes2,
                           const char* fmt, bool generalized, Needed, View<T, 3> grad_boxes1, View<T, 3> grad_boxes2,
                           Stream stream) {
  const Format format = read_format(fmt);
  const Boxes<T> first(boxes1, format), second(boxes2, format);
  with_kind(generalized, [&](auto kind) {
    constexpr bool fixed = decltype(kind)::value;
    if (grad_boxes1.numel() > 0) launch_sums<fixed>(first, second, grad_overlaps, grad_boxes1, stream);
    if (grad_boxes2.numel() > 0) launch_sums<fixed>(second, first, transposed(grad_overlaps), grad_boxes2, stream);
  });
  check_launch("box_overlaps_backward");
}
