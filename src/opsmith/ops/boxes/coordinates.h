// How formats of boxes become one another along an axis, and how coordinates are clipped: for CPUs and GPUs.
#pragma once

#include <opsmith/kernel.h>

#include "boxes.h"

namespace opsmith::ops::box_pairs {
namespace {

// Along an axis a box is two numbers: its edges, its first edge and length, or its middle and length.
template <class C>
struct Two {
  C first, second;
};

// From two numbers of one format to two of another. `transposed` has the gradients: the transpose of that linear map.
template <Format from, Format to, bool transposed>
struct Conversion {
  template <class C>
  OPSMITH_HOST_DEVICE Two<C> operator()(C a, C b) const {
    constexpr bool edges = from == Format::xyxy;
    if constexpr (from == to) {
      return {a, b};
    } else if constexpr (!transposed) {
      if constexpr (edges) return {to == Format::xywh ? a : (a + b) / C(2), b - a};
      if constexpr (from == Format::xywh) {
        if constexpr (to == Format::xyxy) return {a, a + b};
        return {a + b / C(2), b};
      }
      return {a - b / C(2), to == Format::xyxy ? a + b / C(2) : b};
    } else {
      if constexpr (edges) {
        const C half = a / C(2);
        if constexpr (to == Format::xywh) return {a - b, b};
        return {half - b, half + b};
      }
      if constexpr (from == Format::xywh) {
        if constexpr (to == Format::xyxy) return {a + b, b};
        return {a, a / C(2) + b};
      }
      if constexpr (to == Format::xyxy) return {a + b, (b - a) / C(2)};
      return {a, b - a / C(2)};
    }
  }
};

// Calls f with the conversion between two formats.
template <bool transposed, class F>
void with_conversion(const char* in, const char* out, const F& f) {
  const Format from = read_format(in), to = read_format(out);
  const auto with_target = [&](auto source) {
    constexpr Format fixed = decltype(source)::value;
    if (to == Format::xyxy) return f(Conversion<fixed, Format::xyxy, transposed>());
    if (to == Format::xywh) return f(Conversion<fixed, Format::xywh, transposed>());
    return f(Conversion<fixed, Format::cxcywh, transposed>());
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
