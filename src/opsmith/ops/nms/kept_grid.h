// Kept boxes by place and size, for thresholds from `least_threshold` on.
//
// Intersection over union is at most the ratio of the two widths, and of the two heights. So where it is above t, a
// box's size (the larger of width and height) is within t and 1/t times the other's. Along one axis the shared length s
// has s / (w + v - s) > t for widths w and v, and the centres are (w + v) / 2 - s apart, which with v < w / t is less
// than w (1 - t) / (2 t). A kept box is therefore put down in all cells within that of its centre, and a later one
// looks into the cells of its own centre alone, for the few levels of size that may matter. A level covers a factor of
// two, and its cells are so large that a kept box is put down in two along an axis at most.
//
// Cells are found by a hash that is not resolved: two of them in one bucket only cost tests. Most of the time goes into
// branches that a processor guesses wrong, so there are few: an empty bucket leads to a group without boxes, which is
// tested like any other, and only the groups behind the first ones are a matter of chance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kept_list.h"

namespace opsmith::ops::nms {
namespace {

template <class C>
class KeptGrid {
 public:
  static constexpr double least_threshold = 0.05;

  explicit KeptGrid(double threshold)
      // A little less than the threshold: the test itself is rounded, and so are the places here.
      : bound_(std::fmin(threshold * (1 - 1e-4), 0.999)),
        reach_((1 - bound_) / (2 * bound_)),
        inverse_bound_(1 / bound_),
        cells_per_unit_(1 / (1.01 * std::fmax(0.05, 2 * reach_))),
        threshold_(C(threshold)) {}

  // Forgets all boxes; there will be n at most.
  void reset(int64_t n) {
    int bits = 4;
    while ((int64_t{1} << bits) < 2 * n) ++bits;
    shift_ = 64 - bits;
    first_.assign(size_t{1} << bits, empty);
    groups_.clear();
    groups_.reserve(n + 1);
    groups_.emplace_back(empty);
    groups_[empty].count = lanes;  // so that no box is put into it
    lowest_ = INT32_MAX, highest_ = INT32_MIN;
  }

  // Whether a grid finds what a list finds: where a box is tiny compared with the roundings of its place, or its area
  // with the smallest numbers there are, the bounds above do not hold. `box` has an area above 0.
  static bool can_hold(const Box<C>& box, C area) {
    const Place place(box);
    const double far = std::fmax(std::fabs(place.x), std::fabs(place.y));
    return area > (sizeof(C) == 4 ? C(0x1p-100) : C(0x1p-900)) && place.size < 0x1p1000 && place.size > far * 0x1p-40;
  }

  bool suppresses_any(const Box<C>& box, C area) const {
    const Place place(box);
    const int first = std::max(level_of(place.size * bound_), lowest_);
    const int last = std::min(level_of(place.size * inverse_bound_), highest_);
    int found = 0;
    int32_t further = empty;
    for (int level = first; level <= last; ++level) {
      const Group& group = groups_[first_[bucket_at(place, level)]];
      found |= any_suppresses<lanes>(group.view(), box, area, threshold_);
      further |= group.next;
    }
    if (found != 0 || further == empty) return found != 0;
    for (int level = first; level <= last; ++level) {
      for (int32_t k = groups_[first_[bucket_at(place, level)]].next; k != empty;) {
        const Group& group = groups_[k];
        if (any_suppresses<lanes>(group.view(), box, area, threshold_)) return true;
        k = group.next;
      }
    }
    return false;
  }

  void add(const Box<C>& box, C area) {
    const Place place(box);
    const int level = level_of(place.size);
    lowest_ = std::min(lowest_, level);
    highest_ = std::max(highest_, level);
    const double scale = scale_of(level), slack = 1e-4 * place.size;
    const double far_x = place.width * reach_ + slack, far_y = place.height * reach_ + slack;
    const uint64_t x = cell(place.x - far_x, scale), y = cell(place.y - far_y, scale);
    const uint64_t across = cell(place.x + far_x, scale) - x, down = cell(place.y + far_y, scale) - y;  // 0 or 1
    // One loop over one, two or four cells: a processor guesses one end wrong, not three.
    for (uint64_t k = 0; k < (1 + across) << down; ++k) {
      put(bucket(level, x + (k & across), y + (k >> across)), box, area);
    }
  }

 private:
  static constexpr int32_t empty = 0;  // the group that an empty bucket has
  static constexpr int lanes = 8;

  struct Place {
    double x, y, width, height, size;

    explicit Place(const Box<C>& box)
        : x(0.5 * box.x1 + 0.5 * box.x2),
          y(0.5 * box.y1 + 0.5 * box.y2),
          width(static_cast<double>(box.x2) - box.x1),
          height(static_cast<double>(box.y2) - box.y1),
          size(width > height ? width : height) {}
  };

  // Some boxes of one bucket; further ones are in the group `next`.
  struct Group {
    C x1[lanes] = {}, y1[lanes] = {}, x2[lanes] = {}, y2[lanes] = {}, area[lanes];
    int32_t next;
    int32_t count = 0;

    // Where there is no box yet, an area of NaN: it suppresses nothing.
    explicit Group(int32_t next) : next(next) {
      for (C& one : area) one = C(NAN);
    }

    Boxes<C> view() const {
      return {const_cast<C*>(x1), const_cast<C*>(y1), const_cast<C*>(x2), const_cast<C*>(y2), const_cast<C*>(area)};
    }
  };

  static int level_of(double size) {
    return static_cast<int>(bit_cast<uint64_t>(size) >> 52 & 0x7ff) - 1023;  // the exponent
  }

  // Cells to a unit of length: a cell of a level is a little larger than what its boxes, below 2^(level + 1), are put
  // down in.
  double scale_of(int level) const {
    return cells_per_unit_ * bit_cast<double>(static_cast<uint64_t>(1023 - (level + 1)) << 52);
  }

  // The nearest integer, as the last bits of a double: 1.5 * 2^52 leaves no bits for a fraction. What `can_hold` allows
  // is below 2^45 here.
  static uint64_t cell(double place, double scale) { return bit_cast<uint64_t>(place * scale + 0x1.8p52); }

  // The products do not wait for one another.
  uint64_t bucket(int level, uint64_t x, uint64_t y) const {
    const uint64_t hash =
        x * 0x9e3779b97f4a7c15u + y * 0xc2b2ae3d27d4eb4fu + static_cast<uint64_t>(level) * 0xd6e8feb86659fd93u;
    return hash >> shift_;
  }

  uint64_t bucket_at(const Place& place, int level) const {
    const double scale = scale_of(level);
    return bucket(level, cell(place.x, scale), cell(place.y, scale));
  }

  void put(uint64_t bucket, const Box<C>& box, C area) {
    int32_t& first = first_[bucket];
    if (groups_[first].count == lanes) first = new_group(first);
    Group& group = groups_[first];
    group.view().set(group.count++, box, area);
  }

  // Not a part of the hot loop, which is compiled three times.
  __attribute__((noinline)) int32_t new_group(int32_t next) {
    if (groups_.size() == INT32_MAX) fail("nms(): the boxes fill more than 2^31 - 1 places of a grid");
    groups_.emplace_back(next);
    return static_cast<int32_t>(groups_.size() - 1);
  }

  double bound_, reach_, inverse_bound_, cells_per_unit_;
  C threshold_;
  int shift_, lowest_, highest_;
  std::vector<int32_t> first_;
  std::vector<Group> groups_;
};

}  // namespace
}  // namespace opsmith::ops::nms
