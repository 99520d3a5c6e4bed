// A box, its formats, and the sums that a gradient of overlaps consists of: shared by the kernels for CPUs and GPUs.
#pragma once

#include <opsmith/kernel.h>

#include <cstring>

#include "../_boxes/unfused.h"

namespace opsmith::ops::box_pairs {
namespace {

// Which gradients are needed. Kernels go by the outputs instead: those that are not needed have no elements.
struct Needed {
  bool needs_grad_boxes1, needs_grad_boxes2;
};

enum class Format { xyxy, xywh, cxcywh };

inline Format read_format(const char* name) {
  if (std::strcmp(name, "xyxy") == 0) return Format::xyxy;
  if (std::strcmp(name, "xywh") == 0) return Format::xywh;
  if (std::strcmp(name, "cxcywh") == 0) return Format::cxcywh;
  fail("the formats of boxes are xyxy, xywh and cxcywh; found ", name);
}

template <class C>
struct Box {
  C x1, y1, x2, y2;

  // From the four numbers of a format.
  OPSMITH_HOST_DEVICE static Box of(Format format, C a, C b, C c, C d) {
    if (format == Format::xywh) return {a, b, unfused::add(a, c), unfused::add(b, d)};
    if (format == Format::cxcywh) {
      const C half_width = c / C(2), half_height = d / C(2);
      return {unfused::subtract(a, half_width), unfused::subtract(b, half_height), unfused::add(a, half_width),
              unfused::add(b, half_height)};
    }
    return {a, b, c, d};
  }

  OPSMITH_HOST_DEVICE C width() const { return unfused::subtract(x2, x1); }
  OPSMITH_HOST_DEVICE C height() const { return unfused::subtract(y2, y1); }
  OPSMITH_HOST_DEVICE C area() const { return unfused::multiply(width(), height()); }
};

// NaN may get lost here: the area of its box is NaN too, and with it all that is made of them.
template <class C>
OPSMITH_HOST_DEVICE C smaller(C a, C b) {
  return a < b ? a : b;
}
template <class C>
OPSMITH_HOST_DEVICE C larger(C a, C b) {
  return a > b ? a : b;
}
template <class C>
OPSMITH_HOST_DEVICE C positive(C length) {
  return length > C(0) ? length : C(0);
}

// The lengths that two boxes share, and those of the box that encloses both; below 0 where there are none.
template <class C>
struct Meeting {
  C width, height, around_width, around_height;

  OPSMITH_HOST_DEVICE Meeting(const Box<C>& a, const Box<C>& b)
      : width(unfused::subtract(smaller(a.x2, b.x2), larger(a.x1, b.x1))),
        height(unfused::subtract(smaller(a.y2, b.y2), larger(a.y1, b.y1))),
        around_width(unfused::subtract(larger(a.x2, b.x2), smaller(a.x1, b.x1))),
        around_height(unfused::subtract(larger(a.y2, b.y2), smaller(a.y1, b.y1))) {}
};

// What a value of max(own, other), or of min, leaves of its gradient to `own`: all, half where they are equal, nothing.
template <class C>
OPSMITH_HOST_DEVICE C share_of(C gradient, bool wins, bool ties) {
  return wins ? gradient : ties ? gradient / C(2) : C(0);
}

// The gradient of a box, in corners, and that of its area apart: many of these are added up before the area's is
// multiplied with width and height.
template <class C>
struct Slopes {
  C x1, y1, x2, y2, area;

  // Adds what comes by way of the lengths that this box and another share.
  OPSMITH_HOST_DEVICE void add_shared(const Box<C>& own, const Box<C>& other, C by_width, C by_height) {
    x1 -= share_of(by_width, own.x1 > other.x1, own.x1 == other.x1);
    y1 -= share_of(by_height, own.y1 > other.y1, own.y1 == other.y1);
    x2 += share_of(by_width, own.x2 < other.x2, own.x2 == other.x2);
    y2 += share_of(by_height, own.y2 < other.y2, own.y2 == other.y2);
  }
  // Likewise of the box that encloses both.
  OPSMITH_HOST_DEVICE void add_enclosing(const Box<C>& own, const Box<C>& other, C by_width, C by_height) {
    x1 -= share_of(by_width, own.x1 < other.x1, own.x1 == other.x1);
    y1 -= share_of(by_height, own.y1 < other.y1, own.y1 == other.y1);
    x2 += share_of(by_width, own.x2 > other.x2, own.x2 == other.x2);
    y2 += share_of(by_height, own.y2 > other.y2, own.y2 == other.y2);
  }

  // The gradient by the four numbers of the format that the box came in.
  template <class T>
  OPSMITH_HOST_DEVICE void write(const Box<C>& box, Format format, T* to, int64_t stride) const {
    const C by_x = area * box.height(), by_y = area * box.width();
    const C left = x1 - by_x, top = y1 - by_y, right = x2 + by_x, bottom = y2 + by_y;
    const bool corners = format == Format::xyxy, center = format == Format::cxcywh;
    to[0] = T(corners ? left : left + right);
    to[stride] = T(corners ? top : top + bottom);
    to[2 * stride] = T(center ? (right - left) / C(2) : right);
    to[3 * stride] = T(center ? (bottom - top) / C(2) : bottom);
  }
};

}  // namespace
}  // namespace opsmith::ops::box_pairs
