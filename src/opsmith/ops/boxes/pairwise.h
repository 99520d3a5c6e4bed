// Intersection over union of two boxes, and its slopes: shared by the kernels for CPUs and GPUs.
#pragma once

#include <type_traits>

#include "boxes.h"

namespace opsmith::ops::box_pairs {
namespace {

// What the overlap of two boxes is made of. The operations are those of the definition, each rounded once, so equal
// boxes have an overlap of exactly 1.
template <class C>
struct Terms {
  C width, height, intersection, union_area;

  OPSMITH_HOST_DEVICE Terms(const Meeting<C>& meeting, C area, C other_area)
      : width(positive(meeting.width)),
        height(positive(meeting.height)),
        intersection(unfused::multiply(width, height)),
        union_area(unfused::subtract(unfused::add(area, other_area), intersection)) {}
};

template <bool generalized, class C>
OPSMITH_HOST_DEVICE C overlap_of(const Box<C>& a, C area_a, const Box<C>& b, C area_b) {
  const Meeting<C> meeting(a, b);
  const Terms<C> terms(meeting, area_a, area_b);
  const C overlap = terms.intersection / terms.union_area;
  if constexpr (!generalized) {
    return overlap;
  } else {
    const C enclosing = unfused::multiply(positive(meeting.around_width), positive(meeting.around_height));
    return unfused::subtract(overlap, unfused::subtract(C(1), terms.union_area / enclosing));
  }
}

// Adds the slopes of a pair's overlap by the first box, times the gradient.
template <bool generalized, class C>
OPSMITH_HOST_DEVICE void add_slopes(const Box<C>& own, C own_area, const Box<C>& other, C other_area, C gradient,
                                    Slopes<C>& sum) {
  const Meeting<C> meeting(own, other);
  const Terms<C> terms(meeting, own_area, other_area);
  C by_union = -gradient * (terms.intersection / terms.union_area / terms.union_area);
  if constexpr (generalized) {
    const C around_width = positive(meeting.around_width), around_height = positive(meeting.around_height);
    const C enclosing = around_width * around_height;
    by_union += gradient / enclosing;
    const C by_enclosing = -gradient * (terms.union_area / enclosing / enclosing);
    sum.add_enclosing(own, other, meeting.around_width >= C(0) ? by_enclosing * around_height : C(0),
                      meeting.around_height >= C(0) ? by_enclosing * around_width : C(0));
  }
  const C by_intersection = gradient / terms.union_area - by_union;
  sum.add_shared(own, other, meeting.width >= C(0) ? by_intersection * terms.height : C(0),
                 meeting.height >= C(0) ? by_intersection * terms.width : C(0));
  sum.area += by_union;
}

// Calls f with `generalized` as a constant.
template <class F>
void with_kind(bool generalized, const F& f) {
  generalized ? f(std::true_type()) : f(std::false_type());
}

}  // namespace
}  // namespace opsmith::ops::box_pairs
