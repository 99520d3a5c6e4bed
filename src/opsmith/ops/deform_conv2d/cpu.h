// What the forward and the backward on the CPU share: tiles of output positions, and where all taps of a tile read.
#pragma once

#include <opsmith/product.h>

#include <algorithm>
#include <vector>

#include "../_cpu/channel_block.h"
#include "../_cpu/registers.h"
#include "deform_conv2d.h"

namespace opsmith::ops::deform_conv2d {
namespace {

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Elements from one row of a buffer to the next, for rows that products read by whole panels. A cache line more than
// that, lest all rows start in one set of the cache.
template <class C>
int64_t padded(int64_t columns) {
  return round_up(columns, panel<C>) + 64 / static_cast<int64_t>(sizeof(C));
}

// A rectangle of output positions.
struct Tile {
  int64_t row, column, rows, columns;

  int64_t size() const { return rows * columns; }
  int64_t place(int64_t p, int64_t width) const { return (row + p / columns) * width + column + p % columns; }

  // The part of a tensor [N, channels, OH, OW] that belongs to the tile.
  template <class T>
  View<T, 4> of(View<T, 4> tensor) const {
    tensor.data += row * tensor.stride[2] + column * tensor.stride[3];
    tensor.size[2] = rows;
    tensor.size[3] = columns;
    return tensor;
  }
  cpu::Window window() const { return {{0, rows - 1}, {0, columns - 1}}; }
};

// The tiles of an output: some whole rows, or a part of one where it is longer than `most` positions.
class Tiles {
 public:
  Tiles(const Convolution& call, int64_t most)
      : height_(call.out_height),
        width_(call.out_width),
        columns_(std::max<int64_t>(1, std::min(width_, most))),
        rows_(std::max<int64_t>(1, std::min(height_, most / columns_))),
        across_((width_ + columns_ - 1) / columns_),
        count_((height_ + rows_ - 1) / rows_ * across_) {}

  int64_t count() const { return count_; }
  int64_t largest() const { return rows_ * columns_; }
  Tile operator[](int64_t index) const {
    const int64_t row = index / across_ * rows_, column = index % across_ * columns_;
    return {row, column, std::min(rows_, height_ - row), std::min(columns_, width_ - column)};
  }

 private:
  int64_t height_, width_, columns_, rows_, across_, count_;
};

// How many positions to take at once: the samples of all taps of `channels` channels then stay in the second-level
// cache, with as much room for what they are multiplied with.
template <class C>
int64_t tile_positions(int64_t taps, int64_t channels) {
  constexpr int64_t elements = (192 << 10) / sizeof(C);
  return std::clamp<int64_t>(elements / std::max<int64_t>(1, taps * channels) / 8 * 8, 8, 128);
}

// What one tap reads at one position: where the four pixels begin in an image, their weights, and the mask.
template <class C>
struct TapPixels {
  int64_t pixel[4];
  C weight[4];
  C mask, below, right;
  bool is_outside;
};

// Where pixels of an image are in memory, in elements; `none` stands for those outside of it.
struct PixelLayout {
  int64_t row, column, none;
};

// The places of one offset group in a tile of an image, as [position][tap].
template <class T>
void find_places(const Convolution& call, const View<const T, 4>& offset, const View<const T, 4>& mask, int64_t image,
                 int64_t offset_group, const Tile& tile, const PixelLayout& layout,
                 std::vector<TapPixels<compute_t<T>>>& places) {
  using C = compute_t<T>;
  places.resize(static_cast<size_t>(tile.size() * call.taps()));
  TapPixels<C>* place = places.data();
  for (int64_t p = 0; p < tile.size(); ++p) {
    const int64_t i = tile.row + p / tile.columns, j = tile.column + p % tile.columns;
    for (int64_t tap = 0; tap < call.taps(); ++tap, ++place) {
      const int64_t channel = offset_group * call.taps() + tap;
      const C y = static_cast<C>(call.grid_y(i, tap / call.taps_x)) + C(offset(image, 2 * channel, i, j));
      const C x = static_cast<C>(call.grid_x(j, tap % call.taps_x)) + C(offset(image, 2 * channel + 1, i, j));
      const Point<C> point = locate(y, x, call.height, call.width);
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t row = point.row(corner), column = point.column(corner);
        const bool is_there = row >= 0 && row < call.height && column >= 0 && column < call.width;
        place->pixel[corner] = is_there ? row * layout.row + column * layout.column : layout.none;
        place->weight[corner] = point.weight(corner);
      }
      place->mask = mask ? C(mask(image, channel, i, j)) : C(1);
      place->below = point.below;
      place->right = point.right;
      place->is_outside = point.is_outside;
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
