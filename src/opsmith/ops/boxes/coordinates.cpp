// Formats of boxes, and clipping, on the CPU: blocks of boxes in the type to compute in.
#include "coordinates.h"

#include <opsmith/block.h>

#include <algorithm>

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int64_t boxes_of_block = block_size / 4;

// Boxes to read: where they lie, or a copy in the type to compute in.
template <class T>
class BoxBlock {
  using C = compute_t<T>;

 public:
  BoxBlock(const View<const T, 2>& boxes, int64_t first, int64_t count) : data(copy_) {
    const T* const from = boxes.data + first * boxes.stride[0];
    if (boxes.stride[1] == 1 && (boxes.stride[0] == 4 || count == 1)) {
      if constexpr (std::is_same_v<T, C>) {
        data = from;
      } else {
        load_block(from, 1, 4 * count, copy_);
      }
      return;
    }
    for (int64_t k = 0; k < count; ++k) load_block(from + k * boxes.stride[0], boxes.stride[1], 4, copy_ + 4 * k);
  }
  BoxBlock(const BoxBlock&) = delete;

  const C* data;

 private:
  C copy_[block_size];
};

template <class F>
struct MapBoxes {
  F f;

  template <class C, class... In>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, C* __restrict__ out, const In* __restrict__... in) const {
    const F own = f;
    for (int64_t k = 0; k < 4 * n; k += 4) own((in + k)..., out + k);
  }
};

// out[k] = f(in[k]...) for all boxes.
template <class F, class T, class... In>
void map_boxes(const F& f, const View<T, 2>& out, const View<const In, 2>&... in) {
  using C = compute_t<T>;
  constexpr int64_t grain = 8192;
  parallel_for(0, out.size[0], grain, [&](int64_t begin, int64_t end) {
    C results[block_size];
    for (int64_t first = begin; first < end; first += boxes_of_block) {
      const int64_t count = std::min(boxes_of_block, end - first);
      with_best_isa(MapBoxes<F>{f}, count, results, BoxBlock<In>(in, first, count).data...);
      if (out.stride[1] == 1 && out.stride[0] == 4) {
        store_block(results, 4 * count, out.data + 4 * first, 1);
      } else {
        for (int64_t k = 0; k < count; ++k) store_block(results + 4 * k, 4, &out(first + k, 0), out.stride[1]);
      }
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void converted_boxes(View<const T, 2> boxes, const char* in_fmt, const char* out_fmt, View<T, 2> converted) {
  with_formats<Conversion>(in_fmt, out_fmt,
                           [&](auto convert) { map_boxes(ConvertBox<decltype(convert)>{convert}, converted, boxes); });
}

template <class T>
void converted_boxes_backward(View<const T, 2> grad_converted, const char* in_fmt, const char* out_fmt,
                              View<T, 2> grad_boxes) {
  with_formats<Transpose>(in_fmt, out_fmt, [&](auto convert) {
    map_boxes(ConvertBox<decltype(convert)>{convert}, grad_boxes, grad_converted);
  });
}

template <class T>
void clipped_boxes(View<const T, 2> boxes, int64_t height, int64_t width, View<T, 2> clipped) {
  using C = compute_t<T>;
  map_boxes(ClipBox<C>{{static_cast<C>(width), static_cast<C>(height)}}, clipped, boxes);
}

template <class T>
void clipped_boxes_backward(View<const T, 2> grad_clipped, View<const T, 2> boxes, int64_t height, int64_t width,
                            View<T, 2> grad_boxes) {
  using C = compute_t<T>;
  map_boxes(ClipGradient<C>{{static_cast<C>(width), static_cast<C>(height)}}, grad_boxes, grad_clipped, boxes);
}
