// Pasting masks into images on the CPU, and its transpose.
//
// Forward: the two rows of a mask around a row of the image become one, of which each pixel is interpolated. Backward:
// the rows of the image are added up into the mask's, which is one vector after another, and only then their pixels.
#include "paste_masks.h"

#include <opsmith/block.h>

#include <algorithm>
#include <vector>

using namespace opsmith;
using namespace opsmith::ops::paste_masks;

namespace opsmith::ops::paste_masks {
namespace {

constexpr int64_t band = 64;  // rows of an image that are a piece of work

// A mask with a border of zeros, one wider than its padding on the far side: what a tap has next to the last pixel.
template <class C>
class Padded {
 public:
  template <class T>
  Padded(const View<const T, 3>& masks, int64_t n, int64_t padding)
      : width_(masks.size[2] + 2 * padding + 1),
        values_(static_cast<size_t>((masks.size[1] + 2 * padding + 1) * width_)) {
    for (int64_t row = 0; row < masks.size[1]; ++row) {
      load_block(&masks(n, row, 0), masks.stride[2], masks.size[2],
                 values_.data() + (row + padding) * width_ + padding);
    }
  }

  int64_t width() const { return width_; }
  const C* row(int64_t row) const { return values_.data() + row * width_; }

 private:
  int64_t width_;
  std::vector<C> values_;
};

// out[k] = what lies between two neighbours of `line`.
struct Spread {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, const int* __restrict__ low, const C* __restrict__ share,
                                      const C* __restrict__ line, C* __restrict__ out) const {
    for (int64_t k = 0; k < n; ++k) out[k] = between(line[low[k]], line[low[k] + 1], share[k]);
  }
};

// Writes rows of numbers.
template <class T>
struct PlainRows {
  using C = compute_t<T>;

  T zero() const { return T(0.0f); }
  void write(const C* from, int64_t n, T* to, int64_t stride) const { store_block(from, n, to, stride); }
};

// Writes whether they are at least the threshold.
template <class C>
struct BinaryRows {
  C threshold;

  bool zero() const { return C(0) >= threshold; }
  void write(const C* from, int64_t n, bool* to, int64_t stride) const {
    for (int64_t k = 0; k < n; ++k) to[k * stride] = from[k] >= threshold;
  }
};

template <class Out>
void fill(Out* to, int64_t n, int64_t stride, Out value) {
  if (stride == 1) {
    std::fill_n(to, n, value);
    return;
  }
  for (int64_t k = 0; k < n; ++k) to[k * stride] = value;
}

// The rows [top, bottom) of image n.
template <class T, class Out, class Writer>
void paste_rows(const View<const T, 3>& masks, int64_t n, const Place<compute_t<T>>& place, int64_t top, int64_t bottom,
                const Writer& writer, const View<Out, 3>& out) {
  using C = compute_t<T>;
  const int64_t stride = out.stride[2];
  const int64_t begin = std::max<int64_t>(top, place.y.begin), behind = std::min<int64_t>(bottom, place.y.behind);
  if (place.is_empty() || begin >= behind) {
    for (int64_t y = top; y < bottom; ++y) fill(&out(n, y, 0), out.size[2], stride, writer.zero());
    return;
  }
  const Padded<C> mask(masks, n, place.x.padding);
  const int64_t left = place.x.begin, count = place.x.behind - left;
  std::vector<C> shares(static_cast<size_t>(count)), line(static_cast<size_t>(mask.width())), row(shares.size());
  std::vector<int> lows(shares.size());
  for (int64_t k = 0; k < count; ++k) {
    const Tap<C> tap = place.x.tap(static_cast<int>(left + k));
    lows[static_cast<size_t>(k)] = tap.low + place.x.padding;
    shares[static_cast<size_t>(k)] = tap.share;
  }
  for (int64_t y = top; y < bottom; ++y) {
    Out* const to = &out(n, y, 0);
    if (y < begin || y >= behind) {
      fill(to, out.size[2], stride, writer.zero());
      continue;
    }
    const Tap<C> tap = place.y.tap(static_cast<int>(y));
    const C* const low = mask.row(tap.low + place.y.padding);
    const C* const high = low + mask.width();
    for (size_t k = 0; k < line.size(); ++k) line[k] = between(low[k], high[k], tap.share);
    with_best_isa(Spread{}, count, static_cast<const int*>(lows.data()), static_cast<const C*>(shares.data()),
                  static_cast<const C*>(line.data()), row.data());
    fill(to, left, stride, writer.zero());
    writer.write(row.data(), count, to + left * stride, stride);
    fill(to + (left + count) * stride, out.size[2] - left - count, stride, writer.zero());
  }
}

template <class T, class Out, class Writer>
void paste_all(const View<const T, 3>& masks, const View<const float, 2>& boxes, const Pasting& pasting,
               const Writer& writer, const View<Out, 3>& out) {
  if (out.numel() == 0) return;
  const float growth = growth_of(pasting);
  const int64_t bands = (out.size[1] + band - 1) / band;
  parallel_for(0, out.size[0] * bands, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t n = piece / bands, top = piece % bands * band;
      Place<compute_t<T>> place{};
      if (masks.numel() > 0) place = place_of<compute_t<T>>(boxes, n, pasting, growth);
      paste_rows(masks, n, place, top, std::min(top + band, out.size[1]), writer, out);
    }
  });
}

// low[k] += (1 - share) * from[k], high[k] += share * from[k].
struct AddRow {
  template <class C>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, C share, const C* __restrict__ from, C* __restrict__ low,
                                      C* __restrict__ high) const {
    for (int64_t k = 0; k < n; ++k) {
      low[k] += (C(1) - share) * from[k];
      high[k] += share * from[k];
    }
  }
};

template <class T>
void gather_mask(const View<const T, 3>& grad_images, int64_t n, const Place<compute_t<T>>& place,
                 const View<T, 3>& grad_masks) {
  using C = compute_t<T>;
  const int64_t height = grad_masks.size[1], width = grad_masks.size[2], padding = place.x.padding;
  if (place.is_empty()) {
    for (int64_t row = 0; row < height; ++row) fill(&grad_masks(n, row, 0), width, grad_masks.stride[2], T(0.0f));
    return;
  }
  const int64_t left = place.x.begin, count = place.x.behind - left;
  std::vector<C> rows(static_cast<size_t>((height + 2 * padding + 1) * count)), row(static_cast<size_t>(count));
  for (int y = place.y.begin; y < place.y.behind; ++y) {
    load_block(&grad_images(n, y, left), grad_images.stride[2], count, row.data());
    const Tap<C> tap = place.y.tap(y);
    C* const low = rows.data() + (tap.low + padding) * count;
    with_best_isa(AddRow{}, count, tap.share, static_cast<const C*>(row.data()), low, low + count);
  }
  std::vector<C> sums(static_cast<size_t>(width + 2 * padding + 1));
  for (int64_t r = 0; r < height; ++r) {
    std::fill(sums.begin(), sums.end(), C(0));
    const C* const from = rows.data() + (r + padding) * count;
    for (int64_t k = 0; k < count; ++k) {
      const Tap<C> tap = place.x.tap(static_cast<int>(left + k));
      C* const low = sums.data() + tap.low + padding;
      low[0] += (C(1) - tap.share) * from[k];
      low[1] += tap.share * from[k];
    }
    store_block(sums.data() + padding, width, &grad_masks(n, r, 0), grad_masks.stride[2]);
  }
}

}  // namespace
}  // namespace opsmith::ops::paste_masks

template <class T>
void pasted_masks(View<const T, 3> masks, View<const float, 2> boxes, Pasting pasting, View<T, 3> images) {
  check(pasting);
  paste_all(masks, boxes, pasting, PlainRows<T>{}, images);
}

template <class T>
void pasted_masks_backward(View<const T, 3> grad_images, View<const float, 2> boxes, Pasting pasting,
                           View<T, 3> grad_masks) {
  check(pasting);
  if (grad_masks.numel() == 0) return;
  const float growth = growth_of(pasting);
  parallel_for(0, grad_masks.size[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      gather_mask(grad_images, n, place_of<compute_t<T>>(boxes, n, pasting, growth), grad_masks);
    }
  });
}

template <class T>
void pasted_binary_masks(View<const T, 3> masks, View<const float, 2> boxes, Pasting pasting, double threshold,
                         View<bool, 3> images) {
  check(pasting);
  using C = compute_t<T>;
  paste_all(masks, boxes, pasting, BinaryRows<C>{static_cast<C>(threshold)}, images);
}
