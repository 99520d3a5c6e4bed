// The levels of a pyramid: which boxes each has.
#pragma once

#include "roi_align.h"

namespace opsmith::ops::roi_align {
namespace {

constexpr int most_levels = 4;

// What is the same for all boxes of each level. A level has the boxes whose area is its own or more, and less than the
// next one's.
struct Levels {
  Pooling level[most_levels];

  // The level of a box; with a NaN in it, the first.
  OPSMITH_HOST_DEVICE int level_of(const View<const float, 2>& boxes, int64_t k) const {
    const float area = area_of(boxes, k);
    int found = 0;
    for (int next = 1; next < most_levels; ++next) found += area >= level[next].least_area;
    return found;
  }
};

// The sizes that the operators are told, as pyramid.py declares them.
struct PyramidSizes {
  int64_t images, height0, width0, height1, width1, height2, width2, height3, width3, out_height, out_width;
};

inline Levels read_levels(const PyramidSizes& sizes, List<double> scales, List<double> areas, int64_t sampling_ratio,
                          bool aligned) {
  if (scales.size != most_levels || areas.size != most_levels - 1) {
    fail("a pyramid takes ", most_levels, " scales and ", most_levels - 1, " areas; found ", scales.size, " and ",
         areas.size);
  }
  for (int64_t i = 0; i < areas.size; ++i) {
    if (!(areas[i] >= (i == 0 ? -INFINITY : areas[i - 1]))) fail("areas must be numbers that do not fall");
  }
  const int64_t heights[most_levels] = {sizes.height0, sizes.height1, sizes.height2, sizes.height3};
  const int64_t widths[most_levels] = {sizes.width0, sizes.width1, sizes.width2, sizes.width3};
  Levels levels{};
  for (int i = 0; i < most_levels; ++i) {
    levels.level[i] = read_arguments(
        {sizes.images, heights[i], widths[i], sizes.out_height, sizes.out_width, scales[i], sampling_ratio, aligned});
    if (i > 0) levels.level[i].least_area = static_cast<float>(areas[i - 1]);
    if (i + 1 < most_levels) levels.level[i].next_area = static_cast<float>(areas[i]);
  }
  return levels;
}

}  // namespace
}  // namespace opsmith::ops::roi_align
