// The largest values of squares of pixels, of which those of bins are made up.
//
// A square of 2 x 2 and one of 4 x 4 pixels begin at each pixel, and the first table of "The LCA Problem Revisited" by
// Bender and Farach-Colton (2000) has their maxima. A bin is covered by the largest squares that fit into it, the last
// ones of a row or column moved back so as to end with the bin: a pixel that is in two of them changes no maximum. So a
// bin of 7 x 7 pixels takes 4 reads in place of 49.
#pragma once

#include <opsmith/kernel.h>

#include "largest.cuh"

namespace opsmith::ops::roi_pool {
namespace {

// A square of level l has 2^l pixels along an axis. The table has the levels from the least one on; bins that are too
// narrow for these are made of single pixels.
constexpr int least_level = 1, top_level = 2, most_side = 1 << top_level;
static_assert(0 < least_level && least_level <= top_level && top_level == 2);

// A part of the channels: a line of the caches, of which each lane has 16 bytes.
constexpr int part_lanes = 8;
// Channels of a lane and of a part.
template <class T>
constexpr int lane_channels = 16 / sizeof(T);
template <class T>
constexpr int part_channels = part_lanes * lane_channels<T>;

// The table of some parts: for each pixel its squares' maxima, and for a gradient the first places of these, row by row
// in the square. Level 0 is there where channels do not lie side by side.
template <bool vectors, class T>
struct Squares {
  static constexpr int width = lane_channels<T>;
  using Values = Vector<T, width>;
  using Places = Vector<uint8_t, width>;
  static constexpr bool has_pixels = !vectors;
  static constexpr int placed_levels = top_level + 1 - least_level;  // the first place in a pixel needs no table
  static constexpr int levels = placed_levels + (has_pixels ? 1 : 0);

  Values* values;  // [levels, parts, images, height, width, part_lanes], level 0 behind the others
  Places* places;  // the same with `placed_levels`
  int entries;     // of a level; those of all have 31 bits

  static int64_t bytes(int64_t entries, bool has_places) {
    return entries * static_cast<int64_t>(levels * sizeof(Values) + (has_places ? placed_levels * sizeof(Places) : 0));
  }
  Squares(void* memory, int64_t entries)
      : values(static_cast<Values*>(memory)),
        places(reinterpret_cast<Places*>(values + levels * entries)),
        entries(static_cast<int>(entries)) {}

  __device__ Values& value(int level, int entry) const {
    return values[(level == 0 ? placed_levels : level - least_level) * entries + entry];
  }
  __device__ Places& place(int level, int entry) const { return places[(level - least_level) * entries + entry]; }
};

// The largest values of some pixels, channel by channel.
template <bool has_places, class T, bool in_pairs = has_places && compares_pairs && sizeof(T) == 2>
struct Maximum {
  Vector<T, lane_channels<T>> most;

  __device__ void read(const Vector<T, lane_channels<T>>& pixel) { most = pixel; }
  // Of these pixels and others, which lie behind them row by row. Places in those are `step` further.
  __device__ Maximum with(const Maximum& others, int) const { return {largest(most, others.most)}; }
  template <class Table>
  __device__ void write(const Table& table, int level, int entry) const {
    table.value(level, entry) = most;
  }
};

// The same with the first places where they are.
template <class T>
struct Maximum<true, T, false> {
  static constexpr int width = lane_channels<T>;
  Vector<T, width> most;
  Vector<uint8_t, width> place;

  __device__ void read(const Vector<T, width>& pixel) { most = pixel, place = {}; }
  __device__ Maximum with(const Maximum& others, int step) const {
    Maximum both;
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const auto value = static_cast<compute_t<T>>(others.most.item[c]), own = static_cast<compute_t<T>>(most.item[c]);
      const bool is_there = is_larger(value, own);
      both.most.item[c] = is_there ? others.most.item[c] : most.item[c];
      both.place.item[c] = static_cast<uint8_t>(is_there ? others.place.item[c] + step : place.item[c]);
    }
    return both;
  }
  template <class Table>
  __device__ void write(const Table& table, int level, int entry) const {
    table.value(level, entry) = most, table.place(level, entry) = place;
  }
};

// The same of elements of 16 bits: those of two channels are in a register, and their places are in another one.
template <class T>
struct Maximum<true, T, true> {
  static constexpr int width = lane_channels<T>, pairs = width / 2;
  Vector<uint32_t, pairs> most, place;

  __device__ void read(const Vector<T, width>& pixel) { most = bit_cast<Vector<uint32_t, pairs>>(pixel), place = {}; }
  __device__ Maximum with(const Maximum& others, int step) const {
    const uint32_t both_steps = static_cast<uint32_t>(step) * 0x10001u;
    Maximum both;
#pragma unroll
    for (int k = 0; k < pairs; ++k) {
      const uint32_t is_there = is_larger_pair<T>(others.most.item[k], most.item[k]);
      both.most.item[k] = largest_pair<T>(most.item[k], others.most.item[k]);
      both.place.item[k] = (is_there & (others.place.item[k] + both_steps)) | (~is_there & place.item[k]);
    }
    return both;
  }
  template <class Table>
  __device__ void write(const Table& table, int level, int entry) const {
    Vector<uint32_t, pairs / 2> bytes;
#pragma unroll
    for (int k = 0; k < pairs / 2; ++k) {
      bytes.item[k] = __byte_perm(place.item[2 * k], place.item[2 * k + 1], 0x6420);
    }
    table.value(level, entry) = bit_cast<Vector<T, width>>(most);
    table.place(level, entry) = bit_cast<Vector<uint8_t, width>>(bytes);
  }
};

}  // namespace
}  // namespace opsmith::ops::roi_pool
