// How squares are made: a block makes those that begin in a tile of an image, in a part's channels, and goes down it.
// Rows are on their way while the squares of those before are made.
#pragma once

#include "small_bins.cuh"
#include "squares.cuh"

namespace opsmith::ops::roi_pool {
namespace {

// A thread reads a vector of a row, and makes the squares that begin there. The last columns are read alone, as squares
// reach beyond their own.
constexpr int square_threads = 256;
constexpr int loaded_columns = square_threads / part_lanes, tile_columns = loaded_columns - (most_side - 1);
constexpr int tile_rows = 17;  // or a few less. Three more are read, so that all are in whole rounds
static_assert(tile_columns > 0 && square_threads % part_lanes == 0);
// Rows between two barriers: so many are on their way meanwhile, and more where fewer blocks share a multiprocessor.
template <bool has_places>
constexpr int rows_at_once = has_places ? 4 : 2;

// A tile of an image: its first pixel, and how many rows of squares it has.
struct SquareTile {
  int image, row, column, rows;
};

// Rows of pixels in shared memory: some are put there while others are read. Lane by lane; a pixel takes 16 bytes more
// than it has, for the lanes of neighbouring ones to lie in different banks. Behind the loaded columns lies what the
// threads of the last ones read, of which they make nothing.
constexpr int pixel_places = part_lanes + 1;
template <class T>
struct TileRow {
  Vector<T, lane_channels<T>> pixel[(loaded_columns + most_side - 1) * pixel_places];
};
template <bool has_places, class T>
struct TilePixels {
  TileRow<T> row[2][rows_at_once<has_places>];
};

// What a thread copies of a tile to shared memory: a lane of a pixel of each row. Neighbouring threads have what lies
// side by side. Behind the image its last pixels are read again: what squares have there belongs to no bin.
template <bool vectors, int rows_at_once, class T>
class TileCopy {
  static constexpr int width = lane_channels<T>;

 public:
  __device__ TileCopy(const View<const T, 4>& features, const SquareTile& tile, int first_channel)
      : down_(static_cast<int>(features.stride[2])),
        first_row_(tile.row),
        last_row_(static_cast<int>(features.size[2]) - 1),
        step_(features.stride[1]) {
    const int thread = static_cast<int>(threadIdx.x);
    const int column = vectors ? thread / part_lanes : thread % loaded_columns;
    const int lane = vectors ? thread % part_lanes : thread / loaded_columns;
    place_ = column * pixel_places + lane;
    const int channel = first_channel + lane * width;
    const int x = min(tile.column + column, static_cast<int>(features.size[3]) - 1);
    channels_ = static_cast<int>(features.size[1]) - channel;
    from_ = as_address(features.data + tile.image * features.stride[0] + channel * step_ +
                       x * static_cast<int>(features.stride[3]));
  }

  // Asks for rows of the tile from this one on. No bin has what channels are that are not there.
  __device__ void read(int row) {
#pragma unroll
    for (int r = 0; r < rows_at_once; ++r) {
      const T* at = from_ + min(first_row_ + row + r, last_row_) * down_;
      if constexpr (vectors) {
        if (channels_ > 0) pixel_[r] = *reinterpret_cast<const Vector<T, width>*>(at);
      } else {
#pragma unroll
        for (int c = 0; c < width; ++c, at += step_) {
          if (c < channels_) pixel_[r].item[c] = *at;
        }
      }
    }
  }
  __device__ void put(TileRow<T> (&rows)[rows_at_once]) const {
#pragma unroll
    for (int r = 0; r < rows_at_once; ++r) rows[r].pixel[place_] = pixel_[r];
  }

 private:
  int down_, first_row_, last_row_;
  int place_;     // in a TileRow
  int channels_;  // that are there, or more than a lane has
  int64_t step_;  // from one of them to the next
  const T* from_;
  Vector<T, width> pixel_[rows_at_once]{};
};

// The squares that a thread makes: those that begin in a column of a tile, of a lane. Of the rows above, registers have
// what these need.
template <bool vectors, bool has_places, class T>
class SquareColumn {
  using Max = Maximum<has_places, T>;
  using Table = Squares<vectors, T>;

 public:
  // Of its `rows` the first one's entry is `entry`, and each one's is `below` behind the last.
  __device__ SquareColumn(const Table& squares, int rows, int entry, int below)
      : squares_(squares), rows_(rows), entry_(entry), below_(below) {}

  // Takes the next row, of which the column is at `place`, and writes the squares that end there.
  __device__ void take(int row, const TileRow<T>& from, int place) {
    const auto pixel = [&](int u) {
      Max max;
      max.read(from.pixel[place + u * pixel_places]);
      return max;
    };
    if constexpr (Table::has_pixels) {
      if (has(row)) squares_.value(0, entry_of(row)) = from.pixel[place];
    }
    const Max two = pixel(0).with(pixel(1), 1);
    if constexpr (least_level == 1) {
      if (has(row - 1)) two_above_.with(two, 2).write(squares_, 1, entry_of(row - 1));
      two_above_ = two;
    }
    const Max four = two.with(pixel(2).with(pixel(3), 1), 2), eight = four_above_.with(four, most_side);
    const int first = row - (most_side - 1);
    if (has(first)) eight_before_.with(eight, 2 * most_side).write(squares_, 2, entry_of(first));
    four_above_ = four, eight_before_ = eight_above_, eight_above_ = eight;
  }

 private:
  __device__ bool has(int row) const { return static_cast<unsigned>(row) < static_cast<unsigned>(rows_); }
  __device__ int entry_of(int row) const { return entry_ + row * below_; }

  const Table& squares_;
  int rows_, entry_, below_;
  // Of one row two and four pixels, and four of two rows: those of the row above, and of the one above that.
  Max two_above_{}, four_above_{}, eight_above_{}, eight_before_{};
};

// Makes the squares that begin in a tile; to be called by all threads of a block. The table's part of these channels is
// its `part`th.
template <bool vectors, bool has_places, class T>
__device__ void make_tile(const View<const T, 4>& features, const SquareTile& tile, int first_channel, int part,
                          const Squares<vectors, T>& squares, TilePixels<has_places, T>& memory) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % part_lanes, column = thread / part_lanes;
  const int height = static_cast<int>(features.size[2]), width = static_cast<int>(features.size[3]);
  const int x = tile.column + column;
  const bool is_there =
      column < tile_columns && x < width && first_channel + lane * lane_channels<T> < features.size[1];
  const int row = (part * static_cast<int>(features.size[0]) + tile.image) * height + tile.row;
  SquareColumn<vectors, has_places, T> made(squares, is_there ? tile.rows : 0, (row * width + x) * part_lanes + lane,
                                            width * part_lanes);
  const int place = column * pixel_places + lane;
  constexpr int at_once = rows_at_once<has_places>;
  TileCopy<vectors, at_once, T> copy(features, tile, first_channel);
  const int rows = tile.rows + most_side - 1;
  copy.read(0);
#pragma unroll 1
  for (int first = 0, half = 0; first < rows; first += at_once, half ^= 1) {
    copy.put(memory.row[half]);
    // Once all threads are here, none reads the other half any longer.
    __syncthreads();
    if (first + at_once < rows) copy.read(first + at_once);
#pragma unroll
    for (int r = 0; r < at_once; ++r) made.take(first + r, memory.row[half][r], place);
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
