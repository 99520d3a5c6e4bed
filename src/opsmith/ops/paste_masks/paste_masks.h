// Which pixels of a mask each pixel of an image is interpolated between: shared by the kernels for CPUs and GPUs.
#pragma once

#include <opsmith/kernel.h>

#include "../_boxes/unfused.h"

namespace opsmith::ops::paste_masks {
namespace {

// What the operators are told, as sized.py declares it.
struct Pasting {
  int64_t mask_height, mask_width, height, width, padding;
  bool aligned;
};

constexpr float farthest = 536870912.0f;  // pixels; the same number is in sized.py
constexpr int64_t most_pixels = int64_t{1} << 29;

inline void check(const Pasting& pasting) {
  if (pasting.padding < 0) fail("masks are padded by 0 pixels or more; found padding ", pasting.padding);
  if (pasting.mask_height >= most_pixels || pasting.mask_width >= most_pixels || pasting.height >= most_pixels ||
      pasting.width >= most_pixels || pasting.padding >= most_pixels) {
    fail("paste_masks takes masks, images and paddings of fewer than 2^29 pixels a side");
  }
}

// The pixels that an image's pixel lies between along an axis, counted in the mask without its padding, and what the
// second weighs.
template <class C>
struct Tap {
  int low;
  C share;
};

// A box along an axis, of which pixels [begin, behind) are in the image. Pixel x lies at (x - first + offset) scale +
// lift in the padded mask.
template <class C>
struct Axis {
  int first, begin, behind, padded, padding;
  C scale, offset, lift;

  OPSMITH_HOST_DEVICE Tap<C> tap(int pixel) const {
    C place = unfused::add(unfused::multiply(unfused::add(static_cast<C>(pixel - first), offset), scale), lift);
    const C last = static_cast<C>(padded - 1);
    place = place < C(0) ? C(0) : place > last ? last : place;
    const int low = static_cast<int>(place);
    return {low - padding, unfused::subtract(place, static_cast<C>(low))};
  }

  // What a pixel of the mask weighs in one of the image.
  OPSMITH_HOST_DEVICE C weight(int pixel, int mask) const {
    const Tap<C> found = tap(pixel);
    return found.low == mask ? C(1) - found.share : found.low + 1 == mask ? found.share : C(0);
  }

  // Pixels [from, to) of the image hold all those in which a pixel of the mask has a weight, and some more.
  OPSMITH_HOST_DEVICE void range(int mask, int& from, int& to) const {
    const C before = static_cast<C>(mask + padding - 1) - lift;
    const C low = before / scale - offset, high = (before + C(2)) / scale - offset;
    const C start = static_cast<C>(first), most = static_cast<C>(behind);
    // One pixel more for each rounding, of numbers whose last digit may be a pixel or more.
    const C slack = C(2) + (low < C(0) ? -low : low) * C(1e-6) + (high < C(0) ? -high : high) * C(1e-6);
    const C least = low + start - slack, largest = high + start + slack;
    from = least > static_cast<C>(begin) ? (least < most ? static_cast<int>(least) : behind) : begin;
    to = largest < most ? (largest > static_cast<C>(begin) ? static_cast<int>(largest) : begin) : behind;
  }
};

// A mask's box in the image.
template <class C>
struct Place {
  Axis<C> y, x;

  OPSMITH_HOST_DEVICE bool is_empty() const { return y.begin >= y.behind || x.begin >= x.behind; }
};

template <class C>
OPSMITH_HOST_DEVICE Axis<C> axis_of(float low, float high, int64_t mask, int64_t pixels, int64_t padding) {
  const int64_t first = static_cast<int64_t>(low), end = static_cast<int64_t>(high) + 1;
  const int64_t length = end - first > 1 ? end - first : 1, padded = mask + 2 * padding;
  return {static_cast<int>(first),
          static_cast<int>(first > 0 ? first : 0),
          static_cast<int>(end < pixels ? end : pixels),
          static_cast<int>(padded),
          static_cast<int>(padding),
          static_cast<C>(padded) / static_cast<C>(length),
          C(0.5),
          C(-0.5)};
}

// Pixels are squares, and the box stays as it is. Around the mask is a pixel of zeros, which are as far as its values
// go; how many of the image's pixels are outside of these does not matter.
template <class C>
OPSMITH_HOST_DEVICE Axis<C> aligned_axis_of(float low, float high, int64_t mask, int64_t pixels) {
  const float around = (high - low) / static_cast<float>(mask) + 2.0f;
  const auto first = static_cast<int64_t>(low), begin = static_cast<int64_t>(low - around),
             behind = static_cast<int64_t>(high + around);
  const C scale = static_cast<C>(mask) / unfused::subtract(static_cast<C>(high), static_cast<C>(low));
  const C shift = unfused::subtract(static_cast<C>(low), static_cast<C>(first));
  return {static_cast<int>(first),
          static_cast<int>(begin > 0 ? begin : 0),
          static_cast<int>(behind < pixels ? behind : pixels),
          static_cast<int>(mask + 2),
          1,
          scale,
          unfused::subtract(C(0.5), shift),
          C(0.5)};
}

// How much longer the padding makes a mask.
inline float growth_of(const Pasting& pasting) {
  return static_cast<float>(static_cast<double>(pasting.mask_width + 2 * pasting.padding) /
                            static_cast<double>(pasting.mask_width));
}

// The box as it is, if it has an area.
template <class C>
OPSMITH_HOST_DEVICE Place<C> aligned_place_of(const View<const float, 2>& boxes, int64_t n, const Pasting& pasting) {
  bool is_near = pasting.mask_height > 0 && pasting.mask_width > 0;
  for (int axis = 0; axis < 2; ++axis) {
    const float low = boxes(n, axis), high = boxes(n, axis + 2);
    is_near = is_near && low >= -farthest && high <= farthest && low < high;  // false for NaN
  }
  if (!is_near) return {};
  return {aligned_axis_of<C>(boxes(n, 1), boxes(n, 3), pasting.mask_height, pasting.height),
          aligned_axis_of<C>(boxes(n, 0), boxes(n, 2), pasting.mask_width, pasting.width)};
}

// As torchvision finds it: the box grows around its middle by what the padding adds to a mask's width, and its edges
// are truncated. Each operation is rounded to float32.
template <class C>
OPSMITH_HOST_DEVICE Place<C> place_of(const View<const float, 2>& boxes, int64_t n, const Pasting& pasting,
                                      float growth) {
  if (pasting.aligned) return aligned_place_of<C>(boxes, n, pasting);
  float low[2], high[2];
  bool is_near = true;
  for (int axis = 0; axis < 2; ++axis) {
    const float from = boxes(n, axis), to = boxes(n, axis + 2);
    const float middle = unfused::multiply(unfused::add(to, from), 0.5f);
    const float half = unfused::multiply(unfused::multiply(unfused::subtract(to, from), 0.5f), growth);
    low[axis] = unfused::subtract(middle, half);
    high[axis] = unfused::add(middle, half);
    is_near = is_near && low[axis] >= -farthest && low[axis] <= farthest;  // false for NaN
    is_near = is_near && high[axis] >= -farthest && high[axis] <= farthest;
  }
  if (!is_near) return {};
  return {axis_of<C>(low[1], high[1], pasting.mask_height, pasting.height, pasting.padding),
          axis_of<C>(low[0], high[0], pasting.mask_width, pasting.width, pasting.padding)};
}

// Between two values.
template <class C>
OPSMITH_HOST_DEVICE C between(C low, C high, C share) {
  return unfused::add(unfused::multiply(C(1) - share, low), unfused::multiply(share, high));
}

}  // namespace
}  // namespace opsmith::ops::paste_masks
