// Pasting masks into images on a GPU, all masks in one kernel, and its transpose.
//
// Forward: a thread writes four pixels next to each other, 16 bytes of float32. What most of an image needs is its box
// alone. Backward: a block has a row of a mask. It adds up the image's columns into shared memory, and from there each
// pixel of the row takes what it has a weight in; so sums are made in one order.
#include "paste_masks.h"

using namespace opsmith;
using namespace opsmith::ops::paste_masks;

namespace opsmith::ops::paste_masks {
namespace {

constexpr int threads = 256;
constexpr int width_each = 4;
constexpr int columns_at_once = 512;

template <class T>
struct Masks {
  View<const T, 3> values;

  // A pixel of a mask, or of its padding.
  __device__ compute_t<T> operator()(int64_t n, int row, int column) const {
    const bool is_there = row >= 0 && row < values.size[1] && column >= 0 && column < values.size[2];
    return is_there ? static_cast<compute_t<T>>(values(n, row, column)) : compute_t<T>(0);
  }

  __device__ compute_t<T> sample(int64_t n, const Tap<compute_t<T>>& y, const Tap<compute_t<T>>& x) const {
    using C = compute_t<T>;
    const C left = between((*this)(n, y.low, x.low), (*this)(n, y.low + 1, x.low), y.share);
    const C right = between((*this)(n, y.low, x.low + 1), (*this)(n, y.low + 1, x.low + 1), y.share);
    return between(left, right, x.share);
  }
};

// What is written of a number.
template <class T>
struct PlainValue {
  using Out = T;
  __device__ T operator()(compute_t<T> value) const { return static_cast<T>(value); }
};
template <class C>
struct BinaryValue {
  using Out = bool;
  C threshold;
  __device__ bool operator()(C value) const { return value >= threshold; }
};

template <class T, class Write>
__global__ void __launch_bounds__(threads)
    paste_all(Masks<T> masks, View<const float, 2> boxes, Pasting pasting, float growth, Write write, bool vectors,
              View<typename Write::Out, 3> out) {
  using C = compute_t<T>;
  using Out = typename Write::Out;
  const int64_t across = (pasting.width + width_each - 1) / width_each;
  const int64_t items = out.size[0] * pasting.height * across;
  for (int64_t item = int64_t{blockIdx.x} * threads + threadIdx.x; item < items; item += int64_t{gridDim.x} * threads) {
    const int64_t line = item / across, n = line / pasting.height;
    const int left = static_cast<int>(item % across) * width_each, y = static_cast<int>(line % pasting.height);
    const Place<C> place = place_of<C>(boxes, n, pasting, growth);
    C value[width_each] = {};
    if (y >= place.y.begin && y < place.y.behind && left + width_each > place.x.begin && left < place.x.behind) {
      const Tap<C> row = place.y.tap(y);
#pragma unroll
      for (int k = 0; k < width_each; ++k) {
        const int x = left + k;
        if (x >= place.x.begin && x < place.x.behind) value[k] = masks.sample(n, row, place.x.tap(x));
      }
    }
    Out* const to = &out(n, y, left);
    if (vectors) {
      Vector<Out, width_each> four;
#pragma unroll
      for (int k = 0; k < width_each; ++k) four.item[k] = write(value[k]);
      *reinterpret_cast<Vector<Out, width_each>*>(to) = four;
    } else {
      for (int k = 0; k < width_each && left + k < pasting.width; ++k) to[k * out.stride[2]] = write(value[k]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads) gather_rows(View<const T, 3> grad_images, View<const float, 2> boxes,
                                                       Pasting pasting, float growth, View<T, 3> grad_masks) {
  using C = compute_t<T>;
  __shared__ C column_sums[columns_at_once];
  const int64_t rows = grad_masks.size[0] * grad_masks.size[1];
  for (int64_t item = blockIdx.x; item < rows; item += gridDim.x) {
    const int64_t n = item / grad_masks.size[1];
    const int row = static_cast<int>(item % grad_masks.size[1]), width = static_cast<int>(grad_masks.size[2]);
    const Place<C> place = place_of<C>(boxes, n, pasting, growth);
    int top = 0, bottom = 0;
    if (!place.is_empty()) place.y.range(row, top, bottom);
    for (int base = 0; base < width; base += threads) {
      const int column = base + static_cast<int>(threadIdx.x);
      int left = 0, right = 0;
      if (bottom > top && column < width) place.x.range(column, left, right);
      C sum = C(0);
      for (int first = place.x.begin; first < place.x.behind && bottom > top; first += columns_at_once) {
        const int end = first + columns_at_once < place.x.behind ? first + columns_at_once : place.x.behind;
        for (int x = first + static_cast<int>(threadIdx.x); x < end; x += threads) {
          C along = C(0);
          for (int y = top; y < bottom; ++y) {
            along += place.y.weight(y, row) * static_cast<C>(grad_images(n, y, x));
          }
          column_sums[x - first] = along;
        }
        __syncthreads();
        const int from = left > first ? left : first, to = right < end ? right : end;
        for (int x = from; x < to; ++x) sum += place.x.weight(x, column) * column_sums[x - first];
        __syncthreads();
      }
      if (column < width) grad_masks(n, row, column) = static_cast<T>(sum);
    }
  }
}

template <class T, class Write>
void launch_paste(const View<const T, 3>& masks, const View<const float, 2>& boxes, const Pasting& pasting,
                  const Write& write, const View<typename Write::Out, 3>& out, Stream stream) {
  using Out = typename Write::Out;
  if (out.numel() == 0) return;
  const bool vectors = out.is_contiguous() && pasting.width % width_each == 0 &&
                       is_aligned(out.data, static_cast<int>(width_each * sizeof(Out)));
  const int64_t items = out.size[0] * pasting.height * ((pasting.width + width_each - 1) / width_each);
  paste_all<<<blocks_for(items, threads), threads, 0, stream>>>(Masks<T>{masks}, boxes, pasting, growth_of(pasting),
                                                                write, vectors, out);
}

}  // namespace
}  // namespace opsmith::ops::paste_masks

template <class T>
void pasted_masks(View<const T, 3> masks, View<const float, 2> boxes, Pasting pasting, View<T, 3> images,
                  Stream stream) {
  check(pasting);
  launch_paste(masks, boxes, pasting, PlainValue<T>{}, images, stream);
  check_launch("pasted_masks");
}

template <class T>
void pasted_masks_backward(View<const T, 3> grad_images, View<const float, 2> boxes, Pasting pasting,
                           View<T, 3> grad_masks, Stream stream) {
  check(pasting);
  if (grad_masks.numel() == 0) return;
  const unsigned blocks = blocks_for(grad_masks.size[0] * grad_masks.size[1], 1);
  gather_rows<<<blocks, threads, 0, stream>>>(grad_images, boxes, pasting, growth_of(pasting), grad_masks);
  check_launch("pasted_masks_backward");
}

template <class T>
void pasted_binary_masks(View<const T, 3> masks, View<const float, 2> boxes, Pasting pasting, double threshold,
                         View<bool, 3> images, Stream stream) {
  check(pasting);
  using C = compute_t<T>;
  launch_paste(masks, boxes, pasting, BinaryValue<C>{static_cast<C>(threshold)}, images, stream);
  check_launch("pasted_binary_masks");
}
