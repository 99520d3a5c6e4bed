// Kept boxes one after another, of which a vector is tested at a time; on the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "overlap.h"

namespace opsmith::ops::nms {
namespace {

// Boxes and their areas in arrays of their own, for vectors; none owns memory.
template <class C>
struct Boxes {
  C* x1;
  C* y1;
  C* x2;
  C* y2;
  C* area;

  Box<C> operator[](int64_t k) const { return {x1[k], y1[k], x2[k], y2[k]}; }
  void set(int64_t k, const Box<C>& box, C box_area) const {
    x1[k] = box.x1, y1[k] = box.y1, x2[k] = box.x2, y2[k] = box.y2, area[k] = box_area;
  }
  Boxes from(int64_t k) const { return {x1 + k, y1 + k, x2 + k, y2 + k, area + k}; }
};

// Boxes with memory of their own.
template <class C>
class OwnedBoxes {
 public:
  explicit OwnedBoxes(int64_t n) : data_(new C[5 * n]), n_(n) {}
  Boxes<C> view() const {
    C* data = data_.get();
    return {data, data + n_, data + 2 * n_, data + 3 * n_, data + 4 * n_};
  }

 private:
  std::unique_ptr<C[]> data_;
  int64_t n_;
};

// Whether one of `lanes` boxes suppresses `box`: one loop without branches, so a few vector instructions.
template <int lanes, class C>
bool any_suppresses(const Boxes<C>& boxes, const Box<C>& box, C area, C threshold) {
  int found = 0;
  for (int k = 0; k < lanes; ++k) found |= suppresses(boxes[k], boxes.area[k], box, area, threshold);
  return found != 0;
}

constexpr int list_lanes = 32;

// All kept boxes, one after another. Boxes beyond the last are there to fill a vector, and have an area of NaN.
template <class C>
class KeptList {
 public:
  explicit KeptList(double threshold) : threshold_(C(threshold)) {}

  // Forgets all boxes; there will be n at most.
  void reset(int64_t n) {
    count_ = 0;
    if (n <= capacity_) return;
    capacity_ = (n + list_lanes - 1) / list_lanes * list_lanes;
    boxes_ = OwnedBoxes<C>(capacity_);
  }

  bool suppresses_any(const Box<C>& box, C area) const {
    const Boxes<C> boxes = boxes_.view();
    for (int64_t k = 0; k < count_; k += list_lanes) {
      if (any_suppresses<list_lanes>(boxes.from(k), box, area, threshold_)) return true;
    }
    return false;
  }

  void add(const Box<C>& box, C area) {
    const Boxes<C> boxes = boxes_.view();
    if (count_ % list_lanes == 0) {
      for (int k = 0; k < list_lanes; ++k) boxes.set(count_ + k, {}, C(NAN));
    }
    boxes.set(count_++, box, area);
  }

 private:
  C threshold_;
  int64_t capacity_ = 0, count_ = 0;
  OwnedBoxes<C> boxes_{0};
};

}  // namespace
}  // namespace opsmith::ops::nms
