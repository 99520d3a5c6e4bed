// Formats of boxes, and clipping, on a GPU: a thread has a box.
#include "coordinates.h"
#include "vectors.cuh"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int threads = 128;

// A box's four numbers.
template <class C>
struct Four {
  C item[4];
};

template <class T>
__device__ Four<compute_t<T>> read_numbers(const View<const T, 2>& boxes, int64_t k, bool vectors) {
  const Vector<T, 4> four = read_four(&boxes(k, 0), boxes.stride[1], vectors);
  Four<compute_t<T>> box;
  for (int n = 0; n < 4; ++n) box.item[n] = static_cast<compute_t<T>>(four.item[n]);
  return box;
}

template <class F, class C, class... Boxes>
__device__ void apply(const F& f, C* result, const Boxes&... boxes) {
  f(boxes.item..., result);
}

template <class F, class T, class... In>
__global__ void __launch_bounds__(threads) map_each(F f, bool vectors, View<T, 2> out, View<const In, 2>... in) {
  using C = compute_t<T>;
  for (int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x; k < out.size[0]; k += int64_t{gridDim.x} * threads) {
    C result[4];
    apply(f, result, read_numbers(in, k, vectors)...);
    if (vectors) {
      *reinterpret_cast<Vector<T, 4>*>(&out(k, 0)) = opsmith::rounded<T>(result);
    } else {
      for (int n = 0; n < 4; ++n) out(k, n) = static_cast<T>(result[n]);
    }
  }
}

template <class F, class T, class... In>
void map_boxes(const char* op, Stream stream, const F& f, const View<T, 2>& out, const View<const In, 2>&... in) {
  if (out.numel() == 0) return;
  const bool vectors = (are_vectors(out) && ... && are_vectors(in));
  map_each<<<blocks_for(out.size[0], threads), threads, 0, stream>>>(f, vectors, out, in...);
  check_launch(op);
}

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void converted_boxes(View<const T, 2> boxes, const char* in_fmt, const char* out_fmt, View<T, 2> converted,
                     Stream stream) {
  with_formats<Conversion>(in_fmt, out_fmt, [&](auto convert) {
    map_boxes("converted_boxes", stream, ConvertBox<decltype(convert)>{convert}, converted, boxes);
  });
}

template <class T>
void converted_boxes_backward(View<const T, 2> grad_converted, const char* in_fmt, const char* out_fmt,
                              View<T, 2> grad_boxes, Stream stream) {
  with_formats<Transpose>(in_fmt, out_fmt, [&](auto convert) {
    map_boxes("converted_boxes_backward", stream, ConvertBox<decltype(convert)>{convert}, grad_boxes, grad_converted);
  });
}

template <class T>
void clipped_boxes(View<const T, 2> boxes, int64_t height, int64_t width, View<T, 2> clipped, Stream stream) {
  using C = compute_t<T>;
  const ClipBox<C> clip{{static_cast<C>(width), static_cast<C>(height)}};
  map_boxes("clipped_boxes", stream, clip, clipped, boxes);
}

template <class T>
void clipped_boxes_backward(View<const T, 2> grad_clipped, View<const T, 2> boxes, int64_t height, int64_t width,
                            View<T, 2> grad_boxes, Stream stream) {
  using C = compute_t<T>;
  const ClipGradient<C> clip{{static_cast<C>(width), static_cast<C>(height)}};
  map_boxes("clipped_boxes_backward", stream, clip, grad_boxes, grad_clipped, boxes);
}
