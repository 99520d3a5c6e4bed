// Which 128 positions a block of the forward has, and where its taps read there.
#pragma once

#include "../_gpu/barriers.cuh"
#include "gpu_points.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

struct Position {
  int i, j;
  bool is_there;
};

// 128 positions: 8 rows of 16, which read fewer pixels together, or those that follow one another, where images have
// not room for whole rows.
struct PositionTile {
  static constexpr int rows = 8, columns = 16;

  int first_i, first_j, height, width;
  bool is_square;

  __device__ Position at(int index) const {
    int i, j;
    if (is_square) {
      i = first_i + index / columns;
      j = first_j + index % columns;
      return {i, j, i < height && j < width};
    }
    const unsigned position = static_cast<unsigned>(first_j + index), across = static_cast<unsigned>(width);
    i = static_cast<int>(position / across);
    j = static_cast<int>(position % across);
    return {i, j, i < height};
  }

  // The last position that is there, where one is not.
  __device__ Position nearest(int index) const {
    const Position position = at(index);
    if (position.is_there) return position;
    if (!is_square) return {height - 1, width - 1, true};
    return {position.i < height ? position.i : height - 1, position.j < width ? position.j : width - 1, true};
  }

  // Whether each `chunk` positions, from a multiple of it on, lie side by side in a tensor of such strides, and are all
  // there or none.
  __device__ bool has_lines(int64_t row_stride, int64_t column_stride, int chunk) const {
    if (column_stride != 1) return false;
    if (is_square) return row_stride % chunk == 0 && width % chunk == 0;
    return (row_stride == width || height == 1) && int64_t{height} * width % chunk == 0;
  }
};

// How an image is divided into tiles.
struct PositionTiles {
  int height, width;
  bool is_square;

  explicit PositionTiles(const Convolution& call)
      : height(static_cast<int>(call.out_height)), width(static_cast<int>(call.out_width)), is_square(true) {
    const int64_t linear = divide_up(call.positions(), PositionTile::rows * PositionTile::columns);
    is_square = count() * 16 <= linear * 17;
  }

  int64_t count() const {
    if (!is_square) return divide_up(int64_t{height} * width, PositionTile::rows * PositionTile::columns);
    return int64_t{divide_up(height, PositionTile::rows)} * divide_up(width, PositionTile::columns);
  }

  __device__ PositionTile tile(unsigned index) const {
    if (!is_square) {
      return {0, static_cast<int>(index) * PositionTile::rows * PositionTile::columns, height, width, false};
    }
    const unsigned across = static_cast<unsigned>(width + PositionTile::columns - 1) / PositionTile::columns;
    return {static_cast<int>(index / across) * PositionTile::rows,
            static_cast<int>(index % across) * PositionTile::columns, height, width, true};
  }
};

// What of a point is needed to sample channels of it: the pixel at the top left, which of the four corners are in the
// image, how far to the right of it the point is, and what the upper and the lower two pixels weigh together. The mask
// is in these weights, unless it is odd.
struct alignas(16) WidePoint {
  int bits;
  float right, top, bottom;

  // Where the pixel is, counted from the image's first one by `unit` bytes, which all pixels are a multiple of.
  static constexpr int64_t most_units = int64_t{1} << 27;

  __device__ int at() const { return bits >> 4; }
  __device__ int corners() const { return bits & 15; }

  __device__ void weigh(float (&weights)[4]) const {
    weights[1] = top * right;
    weights[0] = top - weights[1];
    weights[3] = bottom * right;
    weights[2] = bottom - weights[3];
  }
};

// Whether a mask must be multiplied with the sum of the four pixels, as is defined: those that would overflow, be NaN
// or lose bits in the product with a weight. Networks have none: masks are sigmoids.
__device__ inline bool is_odd(float mask) {
  const float size = fabsf(mask);
  return size > 0x1p16f || (size < 0x1p-60f && size > 0.0f);
}

struct WidePoints {
  static constexpr int finders = 256;

  WidePoint point[table_taps<float> * product_rows];

  // Finds the points of a run at the positions of a tile, by so many threads, of which this is the `thread`th: all
  // offsets are loaded before the first is used. Returns whether any mask is odd. `unit` is that of WidePoint, in
  // elements.
  template <class T>
  __device__ bool find(const Sampler<T>& sampler, int64_t n, const PositionTile& tile, const Run& run, int thread,
                       int unit) {
    constexpr int apart = finders / product_rows, each = (table_taps<float> + apart - 1) / apart;
    const Convolution& call = sampler.call;
    const Position position = tile.nearest(thread % product_rows);
    const int64_t channel = run.offset_group * call.taps() + run.tap;
    const T* const offset = &sampler.offset(n, 2 * channel, position.i, position.j);
    const T* const own_mask = sampler.mask ? &sampler.mask(n, channel, position.i, position.j) : nullptr;
    float y[each], x[each], mask[each];
#pragma unroll
    for (int k = 0; k < each; ++k) {
      // Beyond the last tap that one stands again.
      const int own = thread / product_rows + k * apart, tap = own < run.taps ? own : run.taps - 1;
      y[k] = offset[2 * tap * sampler.offset.stride[1]];
      x[k] = offset[(2 * tap + 1) * sampler.offset.stride[1]];
      mask[k] = own_mask != nullptr ? float(own_mask[tap * sampler.mask.stride[1]]) : 1.0f;
    }
    gpu::meet_threads<finders>();  // all have read the points that were there
    const unsigned taps_x = static_cast<unsigned>(call.taps_x);
    const int row = static_cast<int>(sampler.pixels.row) / unit,
              column = static_cast<int>(sampler.pixels.column) / unit;
    bool any_odd = false;
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const int own = thread / product_rows + k * apart;
      const unsigned tap = static_cast<unsigned>(run.tap + (own < run.taps ? own : run.taps - 1));
      y[k] += static_cast<float>(call.grid_y(position.i, tap / taps_x));
      x[k] += static_cast<float>(call.grid_x(position.j, tap % taps_x));
      any_odd = any_odd || is_odd(mask[k]);
      const WidePoint found = point_at(y[k], x[k], is_odd(mask[k]) ? 1.0f : mask[k], static_cast<int>(call.height),
                                       static_cast<int>(call.width), row, column, sampler.pixels.has_margin);
      if (own < run.taps) point[thread + k * finders] = found;
    }
    return gpu::meet_and_ask<finders>(any_odd);
  }

  // What samples of a point must still be multiplied with.
  template <class T>
  static __device__ float left_mask(const Sampler<T>& sampler, int64_t n, const PositionTile& tile, const Run& run,
                                    int tap, int line) {
    if (!sampler.mask) return 1.0f;
    const Position position = tile.nearest(line);
    const int64_t channel = run.offset_group * sampler.call.taps() + run.tap + tap;
    const float mask = sampler.mask(n, channel, position.i, position.j);
    return is_odd(mask) ? mask : 1.0f;
  }

 private:
  // As locate() and Sampler::has() do, in 32 bits, which have room for the pixels of an image. NaN has no place.
  static __device__ WidePoint point_at(float y, float x, float mask, int height, int width, int row, int column,
                                       bool has_margin) {
    const bool is_outside =
        y <= -1.0f || y >= static_cast<float>(height) || x <= -1.0f || x >= static_cast<float>(width);
    const bool has_place = !is_outside && y == y && x == x;
    // Where there is a margin, what has no place is below the image.
    const float floor_y = has_place ? floorf(y) : has_margin ? static_cast<float>(height) : -2.0f;
    const float floor_x = has_place ? floorf(x) : has_margin ? 0.0f : -2.0f;
    const int top = static_cast<int>(floor_y), left = static_cast<int>(floor_x);
    const float below = is_outside ? 0.0f : y - floor_y;
    const int rows = (top >= 0 && top < height ? 3 : 0) | (top >= -1 && top < height - 1 ? 12 : 0);
    const int columns = (left >= 0 && left < width ? 5 : 0) | (left >= -1 && left < width - 1 ? 10 : 0);
    WidePoint point;
    point.bits = (top * row + left * column) * 16 | (has_margin ? 15 : rows & columns);
    point.right = is_outside ? 0.0f : x - floor_x;
    point.top = (1.0f - below) * mask;
    point.bottom = below * mask;
    return point;
  }
};

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
