// What soft_nms_gpu.cpp, which has tensors, asks of soft_nms.cu, which has the kernel.
#pragma once

#include <opsmith/kernel.h>

#include <cstdint>

#include "soft.h"

namespace opsmith::ops::nms::soft_gpu {

// Memory for the boxes that are left, n of each, on the GPU.
template <class C>
struct Left {
  C *x1, *y1, *x2, *y2, *area, *score;
  int32_t* index;
};

// Boxes are taken out until none is left or `dets` is full: its rows are boxes with their lowered scores, `inds` their
// numbers, and `count` how many there are. Behind them lie zeros and -1.
template <class T>
struct Result {
  View<T, 2> dets;
  int64_t* inds;
  int64_t* count;
};

template <class T>
void suppress(soft::Method method, View<const T, 2> boxes, View<const T, 1> scores,
              const soft::Rules<compute_t<T>>& rules, const Left<compute_t<T>>& left, const Result<T>& result,
              void* stream);

}  // namespace opsmith::ops::nms::soft_gpu
