// Pasting masks into images on a GPU, all masks in one kernel, and its transpose.
//
// Forward: a thread writes vectors. What most of an image needs is the mask's box alone, which a block
// reads once. Backward: a block has a row of a mask. It adds up the image's columns into shared memory, and from there
// each pixel of the row takes what it has a weight in; so sums are made in one order.
#include "paste_masks.h"

using namespace opsmith;
using namespace opsmith::ops::paste_masks;

namespace opsmith::ops::paste_masks {
namespace {

constexpr int threads = 256;
constexpr int rounds = 8;  // vectors of a thread
// 16 bytes, but of single bytes only 8: a box is few vectors wide, and the lanes of these work while the others wait.
template <class Out>
constexpr int vector_width = sizeof(Out) == 1 ? 8 : 16 / sizeof(Out);
// Blocks that share an image of so many pixels.
template <class Out>
OPSMITH_HOST_DEVICE int pieces_of(int pixels) {
  return (pixels / vector_width<Out> + threads * rounds) / (threads * rounds);
}
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

// One mask and where it goes.
template <class T, class Write>
struct Pasted {
  using C = compute_t<T>;

  Masks<T> masks;
  int64_t n;
  Place<C> place;
  Write write;

  __device__ bool has_row(int64_t y) const { return y >= place.y.begin && y < place.y.behind; }

  __device__ typename Write::Out at(int64_t y, int64_t x) const {
    C value = C(0);
    if (has_row(y) && x >= place.x.begin && x < place.x.behind) {
      value = masks.sample(n, place.y.tap(static_cast<int>(y)), place.x.tap(static_cast<int>(x)));
    }
    return write(value);
  }
};

// Images that lie one after the other, of fewer than 2^31 pixels each. A block has a piece of one of them, and goes
// through it as if it were one long row.
template <class T, class Write>
__global__ void __launch_bounds__(threads) paste_dense(Masks<T> masks, View<const float, 2> boxes, Pasting pasting,
                                                       float growth, Write write, View<typename Write::Out, 3> out) {
  using Out = typename Write::Out;
  constexpr int wide = vector_width<Out>;
  using Wide = Vector<Out, wide>;
  const int width = static_cast<int>(pasting.width), pixels = static_cast<int>(pasting.height) * width;
  const int pieces = pieces_of<Out>(pixels);
  const int64_t items = out.size[0] * pieces;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t n = item / pieces;
    const int piece = static_cast<int>(item - n * pieces);
    const Pasted<T, Write> pasted{masks, n, place_of<compute_t<T>>(boxes, n, pasting, growth), write};
    const Out empty = write(compute_t<T>(0));
    Out* const image = out.data + n * pixels;
    const auto offset = static_cast<int>(reinterpret_cast<uintptr_t>(image) / sizeof(Out) % wide);
    const int head = offset == 0 ? 0 : wide - offset < pixels ? wide - offset : pixels;  // pixels before a vector
    const int vectors = (pixels - head) / wide, tail = head + vectors * wide;
    if (piece == 0) {
      for (int i = static_cast<int>(threadIdx.x); i < head; i += threads) image[i] = pasted.at(i / width, i % width);
      for (int i = tail + static_cast<int>(threadIdx.x); i < pixels; i += threads) {
        image[i] = pasted.at(i / width, i % width);
      }
    }
    for (int round = 0; round < rounds; ++round) {
      const int v = (piece * rounds + round) * threads + static_cast<int>(threadIdx.x);
      if (v >= vectors) break;
      const int first = head + v * wide, y = first / width, x = first - y * width;
      const int last = (x + wide - 1) / width + y;
      Wide found;
#pragma unroll
      for (int k = 0; k < wide; ++k) found.item[k] = empty;
      if (last >= pasted.place.y.begin && y < pasted.place.y.behind) {
        int row = y, column = x;
#pragma unroll
        for (int k = 0; k < wide; ++k) {
          found.item[k] = pasted.at(row, column);
          if (++column == width) {
            column = 0;
            ++row;
          }
        }
      }
      reinterpret_cast<Wide*>(image + head)[v] = found;
    }
  }
}

// Images that lie in any way.
template <class T, class Write>
__global__ void __launch_bounds__(threads) paste_strided(Masks<T> masks, View<const float, 2> boxes, Pasting pasting,
                                                         float growth, Write write, View<typename Write::Out, 3> out) {
  const int64_t items = out.numel();
  for (int64_t item = int64_t{blockIdx.x} * threads + threadIdx.x; item < items; item += int64_t{gridDim.x} * threads) {
    const int64_t line = item / pasting.width, n = line / pasting.height;
    const Pasted<T, Write> pasted{masks, n, place_of<compute_t<T>>(boxes, n, pasting, growth), write};
    const int64_t y = line % pasting.height, x = item % pasting.width;
    out(n, y, x) = pasted.at(y, x);
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
  const float growth = growth_of(pasting);
  const int64_t pixels = pasting.height * pasting.width;
  if (out.is_contiguous() && pixels < (int64_t{1} << 31) - threads * rounds * 16) {
    const unsigned blocks = blocks_for(out.size[0] * pieces_of<Out>(static_cast<int>(pixels)), 1);
    paste_dense<<<blocks, threads, 0, stream>>>(Masks<T>{masks}, boxes, pasting, growth, write, out);
  } else {
    const unsigned blocks = blocks_for(out.numel(), threads);
    paste_strided<<<blocks, threads, 0, stream>>>(Masks<T>{masks}, boxes, pasting, growth, write, out);
  }
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
