// How a filter's output is shared out among the CPU's threads.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::filters {
namespace {

// A piece of work: some rows of one image's channels, those from `channel` on.
struct Piece {
  int64_t image, channel, count, begin, end;
};

// How an operator's output, [N, C, H, W], is shared out: into bands of rows, and into units of channels where they lie
// side by side (channels_last), or where rows are short.
struct Pieces {
  // A vector or two of channels, and few enough for the rows in use to stay in the cache.
  static constexpr int64_t most_units = 32;
  // Outputs of one piece: the rows at its beginning are read again by the piece before, so not too few.
  static constexpr int64_t outputs_per_band = 1 << 15;

  int64_t images, channels, height, unit, groups, rows, bands;

  template <class T>
  Pieces(const View<T, 4>& out, bool side_by_side)
      : images(out.size[0]), channels(out.size[1]), height(out.size[2]), unit(1) {
    if (channels > 1 && side_by_side) unit = channels < most_units ? channels : most_units;
    groups = (channels + unit - 1) / unit;
    rows = outputs_per_band / (out.size[3] * unit) + 1;
    bands = (height + rows - 1) / rows;
  }

  int64_t count() const { return images * groups * bands; }
  Piece operator[](int64_t index) const {
    const int64_t band = index % bands, channel = index / bands % groups * unit;
    const int64_t begin = band * rows, end = begin + rows < height ? begin + rows : height;
    return {index / bands / groups, channel, channels - channel < unit ? channels - channel : unit, begin, end};
  }
};

// The rows of a piece's channels in a tensor [N, C, H, W], as [height width channel].
template <class T>
View<T, 3> rows_of(const View<T, 4>& x, const Piece& piece) {
  return {x.data + piece.image * x.stride[0] + piece.channel * x.stride[1],
          {x.size[2], x.size[3], piece.count},
          {x.stride[2], x.stride[3], x.stride[1]}};
}

// One of its rows, as [width channel].
template <class T>
View<T, 2> row_of(const View<T, 3>& rows, int64_t row) {
  return {rows.data + row * rows.stride[0], {rows.size[1], rows.size[2]}, {rows.stride[1], rows.stride[2]}};
}

// Whether rows are too short to be worth a loop each. Channels are filtered together then, as if they lay side by side:
// with 32 of them that is 2 to 12 times as fast for images of 4x4 and 8x8. From 32x32 on gathering a pixel's channels
// takes longer than it saves.
template <class T>
bool has_short_rows(const View<const T, 4>& x, const View<T, 4>& out) {
  return x.size[3] <= 16 && out.size[3] <= 16 && out.size[1] >= 8;
}

// Whether the channels of a pixel lie side by side.
template <class T>
bool is_side_by_side(const View<T, 4>& x) {
  return x.numel() == 0 || x.stride[1] == 1;
}

}  // namespace
}  // namespace opsmith::ops::filters
