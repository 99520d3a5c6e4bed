// What the CPU's and the GPU's soft suppression make of their arguments.
#pragma once

#include <opsmith/native.h>

#include <string>

#include "soft.h"

namespace opsmith::ops::nms {
namespace {

inline soft::Method method_of(const std::string& name) {
  if (name == "naive") return soft::Method::naive;
  if (name == "linear") return soft::Method::linear;
  if (name == "gaussian") return soft::Method::gaussian;
  fail("soft_nms(): method is '", name.c_str(), "', expected 'naive', 'linear' or 'gaussian'");
}

template <class C>
soft::Rules<C> rules_of(double iou_threshold, double sigma, double min_score, int64_t offset) {
  return {static_cast<C>(iou_threshold), static_cast<C>(sigma), static_cast<C>(min_score), static_cast<C>(offset)};
}

}  // namespace
}  // namespace opsmith::ops::nms
