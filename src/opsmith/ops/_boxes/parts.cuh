// How the bins of boxes are divided up between a GPU's blocks and threads; for roi_align and roi_pool.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::boxes {
namespace {

constexpr int pool_threads = 128;
constexpr int most_bins = 16;  // of a part, along an axis

// The grid's x counts boxes, and its y the parts of one, which are some of its bins and some channels.
struct Split {
  unsigned parts;
  unsigned across, chunks;  // pieces of a box along x, and of the channels
  int rows, columns;        // bins of a piece
  int groups;               // threads' worth of channels in a chunk
  bool inner;               // neighbouring threads have neighbouring channels; else neighbouring bins
};

// Some adjacent bins of a box.
struct Bins {
  int64_t row, column;
  int rows, columns;
};

// For results [K, C, height, width], of which a thread makes `width` channels at once, and a block those of
// `inner_groups` threads where they lie side by side.
template <class T>
Split split_boxes(const char* op, const View<T, 4>& out, int width, bool inner, int inner_groups = 64) {
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  const auto at_most = [](int64_t n, int64_t most) { return n < most ? n : most; };
  const int64_t groups = pieces(out.size[1], width);
  Split split{};
  // Or of 64 planes: with the bins of a piece, work for a few rounds of the threads.
  split.groups = static_cast<int>(at_most(groups, inner ? inner_groups : 16));
  split.inner = inner;
  split.rows = static_cast<int>(at_most(out.size[2], most_bins));
  split.columns = static_cast<int>(at_most(out.size[3], most_bins));
  const int64_t across = pieces(out.size[3], split.columns), chunks = pieces(groups, split.groups);
  const auto parts = [&] { return across * chunks * pieces(out.size[2], split.rows); };
  // With few boxes each is shared by several blocks. 2,048 of them fill any GPU, and what each works out anew is
  // little.
  while (out.size[0] * parts() < 2048 && split.rows > 1) split.rows = (split.rows + 1) / 2;
  if (parts() >= int64_t{1} << 32) fail(op, "() cannot make 2^32 or more parts of a box");
  split.across = static_cast<unsigned>(across);
  split.chunks = static_cast<unsigned>(chunks);
  split.parts = static_cast<unsigned>(parts());
  return split;
}

inline dim3 grid_of(const Split& split, int64_t boxes) {
  return {blocks_for(boxes, 1), split.parts < 65535 ? split.parts : 65535};
}

// The bins of a part.
template <class T>
__device__ Bins bins_of(const Split& split, unsigned part, const View<T, 4>& out) {
  const unsigned piece = part / split.chunks;
  Bins bins{int64_t{piece / split.across} * split.rows, int64_t{piece % split.across} * split.columns, split.rows,
            split.columns};
  if (bins.row + bins.rows > out.size[2]) bins.rows = static_cast<int>(out.size[2] - bins.row);
  if (bins.column + bins.columns > out.size[3]) bins.columns = static_cast<int>(out.size[3] - bins.column);
  return bins;
}

// Calls f(i, j, channel, count) for what a thread makes of a part: the bin in row i and column j of its bins, and
// `count` channels from `channel` on, up to `width`.
template <int width, class F>
__device__ void for_each_bin(const Split& split, unsigned part, const Bins& bins, int64_t channels, const F& f) {
  const int count = bins.rows * bins.columns;
  const int64_t first = int64_t{part % split.chunks} * split.groups * width;
#pragma unroll 1
  for (int index = threadIdx.x; index < count * split.groups; index += blockDim.x) {
    const int bin = split.inner ? index / split.groups : index % count;
    const int group = split.inner ? index % split.groups : index / count;
    const int64_t channel = first + group * width, left = channels - channel;
    if (left > 0) f(bin / bins.columns, bin % bins.columns, channel, left < width ? static_cast<int>(left) : width);
  }
}

}  // namespace
}  // namespace opsmith::ops::boxes
