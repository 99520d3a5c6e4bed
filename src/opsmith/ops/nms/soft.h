// What the box of the highest score does to the scores of others: the one definition, for the CPU and for GPUs.
#pragma once

#include <opsmith/math.h>

#include "overlap.h"

namespace opsmith::ops::nms::soft {

enum class Method { naive, linear, gaussian };

// The numbers that soft suppression is called with; `offset` is added to widths and heights.
template <class C>
struct Rules {
  C iou_threshold, sigma, min_score, offset;
};

}  // namespace opsmith::ops::nms::soft

namespace opsmith::ops::nms {
namespace {

// What a score is multiplied by. An overlap of NaN, which boxes without a finite area have, changes nothing.
template <soft::Method method, class C>
OPSMITH_HOST_DEVICE C weight_of(C overlap, const soft::Rules<C>& rules) {
  if constexpr (method == soft::Method::gaussian)
    return overlap > C(0) ? math::exp(-(overlap * overlap) / rules.sigma) : C(1);
  return overlap >= rules.iou_threshold ? (method == soft::Method::linear ? C(1) - overlap : C(0)) : C(1);
}

// The score of a box once `best` is taken out. Nothing here can be fused but what `rounded` keeps apart, so for naive
// and linear suppression all processors agree; exponentials differ in the last place.
template <soft::Method method, class C>
OPSMITH_HOST_DEVICE C lowered(const Box<C>& best, C best_area, const Box<C>& box, C area, C score,
                              const soft::Rules<C>& rules) {
  const C shared = unfused::multiply(shared_length(best.x1, best.x2, box.x1, box.x2),
                                     shared_length(best.y1, best.y2, box.y1, box.y2));
  const C all = unfused::subtract(unfused::add(best_area, area), shared);
  return score * weight_of<method>(shared > C(0) ? shared / all : C(0), rules);
}

}  // namespace
}  // namespace opsmith::ops::nms
