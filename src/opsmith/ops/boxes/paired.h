// The generalized IoU loss of two boxes, and its slopes: shared by the kernels for CPUs and GPUs.
#pragma once

#include "boxes.h"

namespace opsmith::ops::box_pairs {
namespace {

// What the loss is made of, as the definition has it: boxes share something where both lengths are above 0.
template <class C>
struct LossTerms {
  C intersection, union_area, enclosing;
  bool is_shared;

  OPSMITH_HOST_DEVICE LossTerms(const Box<C>& a, const Box<C>& b, const Meeting<C>& meeting)
      : is_shared(meeting.width > C(0) && meeting.height > C(0)) {
    intersection = is_shared ? unfused::multiply(meeting.width, meeting.height) : C(0);
    union_area = unfused::subtract(unfused::add(a.area(), b.area()), intersection);
    enclosing = unfused::multiply(meeting.around_width, meeting.around_height);
  }
};

template <class C>
OPSMITH_HOST_DEVICE C loss_of(const Box<C>& a, const Box<C>& b, C eps) {
  const LossTerms<C> terms(a, b, Meeting<C>(a, b));
  const C overlap = terms.intersection / unfused::add(terms.union_area, eps);
  const C empty = unfused::subtract(terms.enclosing, terms.union_area) / unfused::add(terms.enclosing, eps);
  return unfused::subtract(C(1), unfused::subtract(overlap, empty));
}

// The slopes of the loss by either box, times the gradient.
template <class C>
struct LossSlopes {
  C by_width, by_height, by_around_width, by_around_height, by_union;

  OPSMITH_HOST_DEVICE LossSlopes(const Box<C>& a, const Box<C>& b, C eps, C gradient) {
    const Meeting<C> meeting(a, b);
    const LossTerms<C> terms(a, b, meeting);
    const C union_area = terms.union_area + eps, enclosing = terms.enclosing + eps;
    by_union = gradient * (terms.intersection / union_area / union_area - C(1) / enclosing);
    const C by_intersection = -gradient / union_area - by_union;
    const C by_enclosing = gradient * (union_area / enclosing) / enclosing;
    by_width = terms.is_shared ? by_intersection * meeting.height : C(0);
    by_height = terms.is_shared ? by_intersection * meeting.width : C(0);
    by_around_width = by_enclosing * meeting.around_height;
    by_around_height = by_enclosing * meeting.around_width;
  }

  OPSMITH_HOST_DEVICE Slopes<C> of(const Box<C>& own, const Box<C>& other) const {
    Slopes<C> slopes{C(0), C(0), C(0), C(0), by_union};
    slopes.add_enclosing(own, other, by_around_width, by_around_height);
    slopes.add_shared(own, other, by_width, by_height);
    return slopes;
  }
};

template <class C>
OPSMITH_HOST_DEVICE Box<C> read_box(const View<const C, 2>& boxes, int64_t k) {
  const C* const from = boxes.data + k * boxes.stride[0];
  const int64_t stride = boxes.stride[1];
  return {from[0], from[stride], from[2 * stride], from[3 * stride]};
}

// The gradients of pair k, times `scale`; what is not needed has no elements.
template <class C>
struct LossGradients {
  View<const C, 1> grad_losses;
  C scale;
  View<const C, 2> boxes1, boxes2;
  C eps;
  View<C, 2> grad_boxes1, grad_boxes2;
  bool is_needed1, is_needed2;

  LossGradients(const View<const C, 1>& grad_losses, C scale, const View<const C, 2>& boxes1,
                const View<const C, 2>& boxes2, double eps, const View<C, 2>& grad_boxes1,
                const View<C, 2>& grad_boxes2)
      : grad_losses(grad_losses),
        scale(scale),
        boxes1(boxes1),
        boxes2(boxes2),
        eps(static_cast<C>(eps)),
        grad_boxes1(grad_boxes1),
        grad_boxes2(grad_boxes2),
        is_needed1(grad_boxes1.numel() > 0),
        is_needed2(grad_boxes2.numel() > 0) {}

  int64_t pairs() const { return boxes1.size[0]; }

  OPSMITH_HOST_DEVICE void write(int64_t k) const {
    const Box<C> first = read_box(boxes1, k), second = read_box(boxes2, k);
    const LossSlopes<C> slopes(first, second, eps, grad_losses(k) * scale);
    if (is_needed1) slopes.of(first, second).write(first, Format::xyxy, &grad_boxes1(k, 0), grad_boxes1.stride[1]);
    if (is_needed2) slopes.of(second, first).write(second, Format::xyxy, &grad_boxes2(k, 0), grad_boxes2.stride[1]);
  }
};

// How a sum of losses or their mean depends on each of `pairs` losses.
template <class C>
C share_of_each(int64_t pairs, bool mean) {
  return mean ? C(1) / static_cast<C>(pairs) : C(1);
}

// The gradient of a sum, as one of each pair.
template <class C>
View<const C, 1> of_each(const View<const C, 0>& gradient, int64_t pairs) {
  return {gradient.data, {pairs}, {0}};
}

}  // namespace
}  // namespace opsmith::ops::box_pairs
