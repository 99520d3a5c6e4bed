// How formats of boxes become one another along an axis, and how coordinates are clipped: for CPUs and GPUs.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

#include "boxes.h"

namespace opsmith::ops::box_pairs {
namespace {

// Along an axis a box is two numbers: its edges, its first edge and length, or its middle and length.
template <class C>
struct Two {
  C first, second;
};

// From two numbers of one format to two of another.
template <Format from, Format to>
struct Conversion {
  template <class C>
  OPSMITH_HOST_DEVICE Two<C> operator()(C a, C b) const {
    if constexpr (from == to) {
      return {a, b};
    } else if constexpr (from == Format::xyxy) {
      return {to == Format::xywh ? a : (a + b) / C(2), b - a};
    } else if constexpr (from == Format::xywh) {
      return to == Format::xyxy ? Two<C>{a, a + b} : Two<C>{a + b / C(2), b};
    } else {
      return {a - b / C(2), to == Format::xyxy ? a + b / C(2) : b};
    }
  }
};

// The transpose of that linear map, for gradients.
template <Format from, Format to>
struct Transpose {
  template <class C>
  OPSMITH_HOST_DEVICE Two<C> operator()(C a, C b) const {
    if constexpr (from == to) {
      return {a, b};
    } else if constexpr (from == Format::xyxy) {
      return to == Format::xywh ? Two<C>{a - b, b} : Two<C>{a / C(2) - b, a / C(2) + b};
    } else if constexpr (from == Format::xywh) {
      return to == Format::xyxy ? Two<C>{a + b, b} : Two<C>{a, a / C(2) + b};
    } else {
      return to == Format::xyxy ? Two<C>{a + b, (b - a) / C(2)} : Two<C>{a, b - a / C(2)};
    }
  }
};

// Calls f with the map between two formats.
template <template <Format, Format> class Map, class F>
void with_formats(const char* in, const char* out, const F& f) {
  const Format from = read_format(in), to = read_format(out);
  const auto with_target = [&](auto source) {
    constexpr Format fixed = decltype(source)::value;
    if (to == Format::xyxy) return f(Map<fixed, Format::xyxy>());
    if (to == Format::xywh) return f(Map<fixed, Format::xywh>());
    return f(Map<fixed, Format::cxcywh>());
  };
  if (from == Format::xyxy) return with_target(std::integral_constant<Format, Format::xyxy>());
  if (from == Format::xywh) return with_target(std::integral_constant<Format, Format::xywh>());
  return with_target(std::integral_constant<Format, Format::cxcywh>());
}

// A box's four numbers to others, by a conversion of each axis.
template <class F>
struct ConvertBox {
  F convert;

  template <class C>
  OPSMITH_HOST_DEVICE void operator()(const C* from, C* to) const {
    const Two<C> x = convert(from[0], from[2]), y = convert(from[1], from[3]);
    to[0] = x.first;
    to[1] = y.first;
    to[2] = x.second;
    to[3] = y.second;
  }
};

// Into an image. A NaN stays.
template <class C>
struct ClipBox {
  C limit[2];  // along x and y

  OPSMITH_HOST_DEVICE void operator()(const C* from, C* to) const {
    for (int k = 0; k < 4; ++k) {
      const C low = from[k] < C(0) ? C(0) : from[k], most = limit[k % 2];
      to[k] = low > most ? most : low;
    }
  }
};

// The gradients of coordinates that lie within the limits.
template <class C>
struct ClipGradient {
  C limit[2];

  OPSMITH_HOST_DEVICE void operator()(const C* gradient, const C* from, C* to) const {
    for (int k = 0; k < 4; ++k) {
      const bool inside = from[k] >= C(0) && from[k] <= limit[k % 2];
      to[k] = inside ? gradient[k] : C(0);
    }
  }
};

}  // namespace
}  // namespace opsmith::ops::box_pairs
