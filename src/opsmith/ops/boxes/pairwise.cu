// The overlaps of all pairs of boxes, and their gradients, on a GPU.
#include "pairwise_sums.cuh"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int64_t enough_blocks = 1024;  // to fill a GPU a few times
constexpr int most_each = 8;             // pairs of a thread, where there are many

// What lies one after the other, counted by 32 bits. A block has `threads * each` pairs that follow each other, and its
// threads take them in turn: what neighbouring threads write lies side by side, and few boxes are read by many of them.
template <bool generalized, int each, class C>
__global__ void __launch_bounds__(threads)
    find_dense(const Vector<C, 4>* __restrict__ boxes1, const Vector<C, 4>* __restrict__ boxes2, Format format,
               unsigned rows, unsigned columns, unsigned pairs, C* __restrict__ out) {
  const unsigned down = threads / columns, across = threads % columns;
  for (unsigned begin = blockIdx.x * (threads * each); begin < pairs; begin += gridDim.x * (threads * each)) {
    unsigned pair = begin + threadIdx.x;
    unsigned row = pair / columns, column = pair - row * columns, row_of_batch = row % rows;
    unsigned others = (row / rows) * columns;  // of the batch begin here
#pragma unroll
    for (int k = 0; k < each; ++k) {
      if (pair < pairs) {
        const Box<C> own = box_of(format, boxes1[row]), other = box_of(format, boxes2[others + column]);
        out[pair] = overlap_of<generalized>(own, own.area(), other, other.area());
      }
      if (k + 1 == each) break;
      pair += threads;
      const unsigned wraps = column + across >= columns ? 1 : 0;
      column += across - wraps * columns;
      row += down + wraps;
      row_of_batch += down + wraps;
      while (row_of_batch >= rows) row_of_batch -= rows, others += columns;
    }
  }
}

template <bool generalized, class C>
__global__ void __launch_bounds__(threads) find_overlaps(Boxes<C> boxes1, Boxes<C> boxes2, View<C, 3> out) {
  const int64_t rows = out.size[1], columns = out.size[2], pairs = out.size[0] * rows * columns;
  for (int64_t pair = int64_t{blockIdx.x} * threads + threadIdx.x; pair < pairs; pair += int64_t{gridDim.x} * threads) {
    const int64_t line = pair / columns, batch = line / rows, row = line % rows, column = pair % columns;
    const Box<C> own = boxes1(batch, row), other = boxes2(batch, column);
    out(batch, row, column) = overlap_of<generalized>(own, own.area(), other, other.area());
  }
}

template <bool generalized, int each, class C>
void launch_dense(const Boxes<C>& boxes1, const Boxes<C>& boxes2, const View<C, 3>& out, Stream stream) {
  using Four = Vector<C, 4>;
  find_dense<generalized, each><<<blocks_for(out.numel(), threads * each), threads, 0, stream>>>(
      reinterpret_cast<const Four*>(boxes1.numbers.data), reinterpret_cast<const Four*>(boxes2.numbers.data),
      boxes1.format, static_cast<unsigned>(out.size[1]), static_cast<unsigned>(out.size[2]),
      static_cast<unsigned>(out.numel()), out.data);
}

template <bool generalized, class C>
void launch_overlaps(const Boxes<C>& boxes1, const Boxes<C>& boxes2, const View<C, 3>& out, Stream stream) {
  const int64_t pairs = out.numel();
  if (!boxes1.is_dense() || !boxes2.is_dense() || !out.is_contiguous() || pairs >= int64_t{1} << 31) {
    find_overlaps<generalized><<<blocks_for(pairs, threads), threads, 0, stream>>>(boxes1, boxes2, out);
  } else if (std::is_same_v<C, float> && pairs >= enough_blocks * threads * most_each &&
             pairs / out.size[0] >= threads) {
    launch_dense<generalized, most_each>(boxes1, boxes2, out, stream);
  } else {
    launch_dense<generalized, 1>(boxes1, boxes2, out, stream);
  }
}

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void box_overlaps(View<const T, 3> boxes1, View<const T, 3> boxes2, const char* fmt, bool generalized,
                  View<T, 3> overlaps, Stream stream) {
  const Format format = read_format(fmt);
  if (overlaps.numel() == 0) return;
  const Boxes<T> first(boxes1, format), second(boxes2, format);
  with_kind(generalized, [&](auto kind) { launch_overlaps<decltype(kind)::value>(first, second, overlaps, stream); });
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
