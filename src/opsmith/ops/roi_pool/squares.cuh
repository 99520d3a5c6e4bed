// The largest values of squares of pixels, of which those of bins are made up.
//
// A square of 2 x 2 and one of 4 x 4 pixels begin at each pixel, and the first table of "The LCA Problem Revisited" by
// Bender and Farach-Colton (2000) has their maxima. A bin is covered by the largest squares that fit into it, the last
// ones of a row or column moved back so as to end with the bin: a pixel that is in two of them changes no maximum. So a
// bin of 7 x 7 pixels takes 4 reads in place of 49.
#pragma once

#include <opsmith/kernel.h>

#include "../_boxes/channels.cuh"
#include "largest.cuh"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Channels;

// A square of level l has 2^l pixels along an axis.
constexpr int top_level = 2, most_side = 1 << top_level;

// A table is made of a part of the features at a time: of as many images as have so many pixels, or one, and of 64
// bytes of channels, 16 for each lane. What is written of a part is then read out of the second-level cache.
constexpr int part_lanes = 4;
constexpr int64_t part_pixels = 1 << 17;
// Parts in memory at once: one is read while the next one is written, and with a third hardly any block waits for the
// last ones that read.
constexpr int most_parts = 3;
// Channels of a lane, which are 16 bytes, and of a part.
template <class T>
constexpr int lane_channels = 16 / sizeof(T);
template <class T>
constexpr int part_channels = part_lanes * lane_channels<T>;

constexpr int square_threads = 256;
constexpr int tile_rows = 16, tile_columns = 32;
constexpr int strip_rows = tile_rows * tile_columns * part_lanes / square_threads;  // of a thread
// Squares reach beyond a tile.
constexpr int loaded_rows = tile_rows + most_side - 1, loaded_columns = tile_columns + most_side - 1;
static_assert(tile_rows % strip_rows == 0 && square_threads % (tile_columns * part_lanes) == 0);

// The tables of the parts that are in memory. Pixels themselves are level 0, which is made where channels do not lie
// side by side.
template <bool vectors, class T>
struct Squares {
  static constexpr int width = lane_channels<T>;
  using Values = Vector<T, width>;
  using Places = Vector<uint8_t, width>;
  static constexpr int first_level = vectors ? 1 : 0, levels = top_level + 1 - first_level;
  static constexpr int placed_levels = top_level;  // the first place in a single pixel needs no table

  Values* values;   // [most_parts, levels, images, height, width, part_lanes]
  Places* places;   // the same with `placed_levels`
  int64_t entries;  // of a level

  // For each pixel of a part's images 384 bytes, or 576 where level 0 is made; of float32 96 more for places.
  static int64_t bytes(int64_t entries, bool has_places) {
    return most_parts * entries *
           static_cast<int64_t>(levels * sizeof(Values) + (has_places ? placed_levels * sizeof(Places) : 0));
  }
  Squares(void* memory, int64_t entries)
      : values(static_cast<Values*>(memory)),
        places(reinterpret_cast<Places*>(values + most_parts * levels * entries)),
        entries(entries) {}

  __device__ Values* values_of(int part, int level) const {
    return values + (part % most_parts * levels + level - first_level) * entries;
  }
  __device__ Places* places_of(int part, int level) const {
    return places + (part % most_parts * placed_levels + level - 1) * entries;
  }
};

// The largest values of some pixels, channel by channel.
template <bool has_places, class T>
struct Maximum {
  Vector<T, lane_channels<T>> most;

  __device__ void read(const Vector<T, lane_channels<T>>& pixel) { most = pixel; }
  // Of these pixels and others, which lie behind them row by row. Places in those are `step` further.
  __device__ Maximum with(const Maximum& others, int) const { return {largest(most, others.most)}; }
  template <class Table>
  __device__ void write(const Table& table, int part, int level, int64_t entry) const {
    table.values_of(part, level)[entry] = most;
  }
};

// The same with the first places where they are. Both are kept as they are written, which takes the fewest registers.
template <class T>
struct Maximum<true, T> {
  static constexpr int width = lane_channels<T>;
  Vector<T, width> most;
  Vector<uint8_t, width> place;

  __device__ void read(const Vector<T, width>& pixel) { most = pixel, place = {}; }
  __device__ Maximum with(const Maximum& others, int step) const {
    Maximum both;
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const bool is_there = is_larger<compute_t<T>>(others.most.item[c], most.item[c]);
      both.most.item[c] = is_there ? others.most.item[c] : most.item[c];
      both.place.item[c] = static_cast<uint8_t>(is_there ? others.place.item[c] + step : place.item[c]);
    }
    return both;
  }
  template <class Table>
  __device__ void write(const Table& table, int part, int level, int64_t entry) const {
    table.values_of(part, level)[entry] = most;
    table.places_of(part, level)[entry] = place;
  }
};

// A tile's image, also counted from the part's first one on, and its first pixel.
struct SquareTile {
  int64_t image;
  int image_of_part, row, column;
};

// In shared memory.
template <class T>
struct TilePixels {
  Vector<T, lane_channels<T>> pixel[loaded_rows * loaded_columns][part_lanes];
};

// Reads a tile and what squares reach beyond it, of a part's channels. Behind the image its last pixels are read again:
// what squares have there belongs to no bin.
template <bool vectors, class T>
__device__ void load_tile(const View<const T, 4>& features, const SquareTile& tile, int64_t first_channel,
                          TilePixels<T>& pixels) {
  constexpr int width = lane_channels<T>, at_once = square_threads / part_lanes;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % part_lanes;
  const int64_t channel = first_channel + lane * width, left = features.size[1] - channel;
  if (left <= 0) return;  // no bin has these
  const Channels<width, vectors> channels{features.stride[1], left < width ? static_cast<int>(left) : width};
  const T* const from = features.data + tile.image * features.stride[0] + channel * features.stride[1];
  const int last_row = static_cast<int>(features.size[2]) - 1, last_column = static_cast<int>(features.size[3]) - 1;
  const int down = static_cast<int>(features.stride[2]), across = static_cast<int>(features.stride[3]);
#pragma unroll 4
  for (int place = thread / part_lanes; place < loaded_rows * loaded_columns; place += at_once) {
    const int row = place / loaded_columns, column = place - row * loaded_columns;
    pixels.pixel[place][lane] =
        channels.read(from + (min(tile.row + row, last_row) * down + min(tile.column + column, last_column) * across));
  }
}

// Makes the squares that begin in a tile. A thread goes down a column, and has what it needs of the rows above in
// registers.
template <bool has_places, bool vectors, class T>
__device__ void make_squares(const TilePixels<T>& pixels, const SquareTile& tile, int part, int height, int width,
                             const Squares<vectors, T>& squares) {
  using Max = Maximum<has_places, T>;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % part_lanes;
  const int column = thread / part_lanes % tile_columns, first = thread / (part_lanes * tile_columns) * strip_rows;
  const int x = tile.column + column, y = tile.row + first, rows = min(strip_rows, height - y);
  if (x >= width || rows <= 0) return;
  const int64_t entry = ((int64_t{tile.image_of_part} * height + y) * width + x) * part_lanes + lane;
  const int64_t below = int64_t{width} * part_lanes;  // from a row's entry to the next row's
  // Of one row two and four pixels, and four of two rows: those of the row above, and of the one above that.
  Max two_above, four_above, eight_above, eight_before;
#pragma unroll 2
  for (int row = 0; row < strip_rows + most_side - 1; ++row) {
    const auto* const from = &pixels.pixel[(first + row) * loaded_columns + column][lane];
    Max pixel[most_side];
#pragma unroll
    for (int u = 0; u < most_side; ++u) pixel[u].read(from[u * part_lanes]);
    const Max two = pixel[0].with(pixel[1], 1), four = two.with(pixel[2].with(pixel[3], 1), 2);
    if constexpr (Squares<vectors, T>::first_level == 0) {
      if (row < rows) squares.values_of(part, 0)[entry + row * below] = *from;
    }
    if (row > 0) {
      if (row - 1 < rows) two_above.with(two, 2).write(squares, part, 1, entry + (row - 1) * below);
      const Max eight = four_above.with(four, most_side);
      if (row >= most_side - 1 && row - (most_side - 1) < rows) {
        eight_before.with(eight, 2 * most_side).write(squares, part, 2, entry + (row - (most_side - 1)) * below);
      }
      eight_before = eight_above, eight_above = eight;
    }
    two_above = two, four_above = four;
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
