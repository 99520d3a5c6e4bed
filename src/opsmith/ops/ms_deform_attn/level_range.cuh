// Which pixels are of a level, on a GPU.
#pragma once

#include "ms_deform_attn.h"

namespace opsmith::ops::ms_deform_attn {
namespace {

// Levels hold fewer than 2^31 of the pixels, however large they say they are.
constexpr int64_t most_pixels = (int64_t{1} << 31) - 1;

// How many pixels a level has where it has some.
__device__ inline int64_t pixels_of(const Level& level) {
  if (level.height <= 1 << 15 && level.width < 1 << 16) return level.height * level.width;  // without a division
  return level.height > most_pixels / level.width ? most_pixels : level.height * level.width;
}

// Which pixels are of a level: those whose place in it, row by row, is below `area`.
struct alignas(16) LevelRange {
  int64_t start;
  unsigned area, columns;

  LevelRange() = default;
  __device__ explicit LevelRange(const Level& level) : start(level.start), area(0), columns(1) {
    if (level.height <= 0 || level.width <= 0) return;
    area = static_cast<unsigned>(pixels_of(level));
    columns = static_cast<unsigned>(level.width < most_pixels ? level.width : most_pixels);
  }

  __device__ bool has(unsigned pixel) const { return uint64_t{pixel} - static_cast<uint64_t>(start) < uint64_t{area}; }
  __device__ unsigned place(unsigned pixel) const { return pixel - static_cast<unsigned>(start); }
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
