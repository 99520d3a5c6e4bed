// When one box suppresses another, and which score comes first: the one definition, for the CPU and for GPUs.
//
// Every operation below is rounded once, to the type C, so that all processors agree on every pair of boxes.
#pragma once

#include <opsmith/kernel.h>

#include <cstdint>

#include "../_boxes/unfused.h"

namespace opsmith::ops::nms {
namespace {

template <class C>
struct Box {
  C x1, y1, x2, y2;
};

// Limits of float and double without <limits>, whose functions are not for GPUs.
template <class C>
constexpr C largest = sizeof(C) == 4 ? C(3.40282346638528859812e38) : C(1.79769313486231570815e308);

// Width times height. 0 for a box that is empty or turned inside out; NaN for one with a NaN or without a finite area,
// which makes every comparison below false: such a box neither suppresses nor is suppressed.
template <class C>
OPSMITH_HOST_DEVICE C area_of(const Box<C>& box) {
  const C width = unfused::subtract(box.x2, box.x1), height = unfused::subtract(box.y2, box.y1);
  const C area = unfused::multiply(width <= C(0) ? C(0) : width, height <= C(0) ? C(0) : height);
  return area <= largest<C> ? area : area - area;
}

// The length that two intervals share. What becomes of a NaN here does not matter, since its box's area is one too.
template <class C>
OPSMITH_HOST_DEVICE C shared_length(C a1, C a2, C b1, C b2) {
#if defined(__CUDA_ARCH__)
  const C length = unfused::subtract(::min(a2, b2), ::max(a1, b1));  // an instruction each, and two as below
#else
  const C length = unfused::subtract(a2 < b2 ? a2 : b2, a1 > b1 ? a1 : b1);
#endif
  return length > C(0) ? length : C(0);
}

// Whether intersection over union is above the threshold, without the division: a quotient would be rounded once more,
// and be NaN for two empty boxes.
template <class C>
OPSMITH_HOST_DEVICE bool suppresses(const Box<C>& a, C area_a, const Box<C>& b, C area_b, C threshold) {
  const C shared = unfused::multiply(shared_length(a.x1, a.x2, b.x1, b.x2), shared_length(a.y1, a.y2, b.y1, b.y2));
  const C all = unfused::subtract(unfused::add(area_a, area_b), shared);
  return shared > unfused::multiply(threshold, all);
}

// A key that ascends where scores descend; equal scores, also 0 and -0, have equal keys. NaN comes first, as in
// torch.sort, whatever its sign.
OPSMITH_HOST_DEVICE uint32_t score_key(float score) {
  if (score != score) return 0;
  const uint32_t bits = score == 0 ? 0u : bit_cast<uint32_t>(score);
  return (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffu;
}
OPSMITH_HOST_DEVICE uint64_t score_key(double score) {
  if (score != score) return 0;
  const uint64_t bits = score == 0 ? 0u : bit_cast<uint64_t>(score);
  return (bits >> 63) != 0 ? bits : ~bits & 0x7fffffffffffffffu;
}

}  // namespace
}  // namespace opsmith::ops::nms
