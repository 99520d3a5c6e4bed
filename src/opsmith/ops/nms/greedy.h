// Greedy suppression on the CPU: boxes come in order of their scores, and one is kept unless a kept one suppresses it.
//
// What is kept is looked up in one of two ways, with the same outcome. A list is tested from its beginning to its end,
// a vector at a time. A grid has the boxes by place and size, so that a box meets only those that may suppress it: with
// it n boxes that hardly overlap take n steps, not n^2.
#pragma once

#include <algorithm>

#include "kept_grid.h"
#include "kept_list.h"

namespace opsmith::ops::nms {
namespace {

// Below this many boxes a list is as fast.
constexpr int64_t grid_pays = 400;

// Keeps boxes greedily, of one class after another in the same memory.
template <class C>
class Keeper {
 public:
  explicit Keeper(double threshold)
      : threshold_(static_cast<double>(C(threshold))), list_(threshold_), grid_(threshold_) {}

  // Sets kept[k] for each of n boxes in order; stops once `most` are kept, and then the rest are not. Returns how many.
  int64_t keep(const Boxes<C>& boxes, int64_t n, int64_t most, uint8_t* kept) {
    std::fill(kept, kept + n, uint8_t{0});
    if (!(threshold_ < 1)) {  // nothing is above it; NaN compares with nothing
      const int64_t count = std::min(n, most);
      std::fill(kept, kept + count, uint8_t{1});
      return count;
    }
    bool by_grid = n >= grid_pays && threshold_ >= KeptGrid<C>::least_threshold;
    for (int64_t k = 0; by_grid && k < n; ++k) {
      by_grid = !(boxes.area[k] > C(0)) || KeptGrid<C>::can_hold(boxes[k], boxes.area[k]);
    }
    return by_grid ? keep_with(grid_, boxes, n, most, kept) : keep_with(list_, boxes, n, most, kept);
  }

 private:
  template <class Kept>
  int64_t keep_with(Kept& so_far, const Boxes<C>& boxes, int64_t n, int64_t most, uint8_t* kept) {
    so_far.reset(n);
    int64_t count = 0;
    with_best_isa(
        [&](const Boxes<C>& sorted) {
          for (int64_t k = 0; k < n && count < most; ++k) {
            const Box<C> box = sorted[k];
            const C area = sorted.area[k];
            // At a threshold of 0 or more, a box without an area shares none with any other; see area_of.
            const bool alone = threshold_ >= 0 && !(area > C(0));
            kept[k] = alone || !so_far.suppresses_any(box, area);
            count += kept[k];
            if (kept[k] && !alone) so_far.add(box, area);
          }
        },
        boxes);
    return count;
  }

  double threshold_;
  KeptList<C> list_;
  KeptGrid<C> grid_;
};

}  // namespace
}  // namespace opsmith::ops::nms
