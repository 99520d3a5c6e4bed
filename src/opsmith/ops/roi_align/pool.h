// roi_align on a GPU: a block makes some bins of one box, of some channels.
//
// A thread makes one bin of a few channels. In channels_last features these are a vector of 16 bytes, and the threads
// of a warp have one bin and adjacent vectors: each tap reads whole lines of memory. In contiguous ones a thread has
// four channels and its neighbours the adjacent bins, which write adjacent places and read pixels of the same rows; a
// tap's place and weight, looked up once, serve four loads. Staging a box's window in shared memory would read each
// pixel once, but of a large box most pixels have no weight, and of a small one the first-level cache holds them all.
#pragma once

#include "box_taps.h"
#include "channels.h"

namespace {

constexpr int pool_threads = 128;

// How a call is divided up: the grid's x counts boxes, and its y the parts of one, which are some of its bins and some
// channels.
struct Split {
  unsigned parts;
  unsigned across, chunks;  // pieces of a box along x, and of the channels
  int rows, columns;        // bins of a piece
  int groups;               // threads' worth of channels in a chunk
  bool inner;               // neighbouring threads have neighbouring channels; else neighbouring bins
};

template <class C, int width, bool vectors, class T>
__device__ void pool_taps(const BoxTaps<C>& taps, int i, int j, const Channels<width, vectors>& channels, const T* from,
                          int64_t row, int64_t column, C (&sum)[width]) {
  const Tap<C>*y = taps.y.tap + i * taps.y.slots, *x = taps.x.tap + j * taps.x.slots;
#pragma unroll 1
  for (int t = 0; t < taps.y.slots; ++t) {
    const T* const line = from + y[t].pixel * row;
#pragma unroll 1
    for (int u = 0; u < taps.x.slots; u += 4) {
      // Four loads are on their way before the first is used. What weighs nothing is not read: it may be NaN.
      C weight[4], value[4][width];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        weight[q] = y[t].weight * x[u + q].weight;
        if (weight[q] != 0) {
          channels.load(line + x[u + q].pixel * column, value[q]);
        } else {
#pragma unroll
          for (int c = 0; c < width; ++c) value[q][c] = 0;
        }
      }
#pragma unroll
      for (int q = 0; q < 4; ++q) {
#pragma unroll
        for (int c = 0; c < width; ++c) sum[c] += weight[q] * value[q][c];
      }
    }
  }
}

// Point by point, for boxes whose taps do not fit the shared memory.
template <class C, int width, bool vectors, class T>
__device__ void pool_points(const Roi& roi, int64_t i, int64_t j, const Channels<width, vectors>& channels,
                            const T* from, int64_t row, int64_t column, C (&sum)[width]) {
  const C share = C{1} / (static_cast<C>(roi.y.samples) * static_cast<C>(roi.x.samples));
  roi.y.for_each(i, [&](int y, float weight_y) {
    roi.x.for_each(j, [&](int x, float weight_x) {
      C value[width];
      channels.load(from + y * row + x * column, value);
      const C weight = static_cast<C>(weight_y) * static_cast<C>(weight_x) * share;
#pragma unroll
      for (int c = 0; c < width; ++c) sum[c] += weight * value[c];
    });
  });
}

// Makes the bins of one part.
template <int width, bool vectors, class T>
__device__ void pool_part(const View<const T, 4>& features, const Roi& roi, int64_t k, const Bins& bins,
                          const BoxTaps<compute_t<T>>& taps, int64_t first_channel, const Split& split,
                          const View<T, 4>& out) {
  using C = compute_t<T>;
  const bool is_stored = roi.image >= 0 && taps.y.is_stored && taps.x.is_stored;
  const int count = bins.rows * bins.columns;
#pragma unroll 1
  for (int index = threadIdx.x; index < count * split.groups; index += pool_threads) {
    const int bin = split.inner ? index / split.groups : index % count;
    const int group = split.inner ? index % split.groups : index / count;
    const int i = bin / bins.columns, j = bin % bins.columns;
    const int64_t channel = first_channel + group * width, left = out.size[1] - channel;
    if (left <= 0) continue;
    const int valid = left < width ? static_cast<int>(left) : width;
    const Channels<width, vectors> to{out.stride[1], valid}, from{features.stride[1], valid};
    C sum[width] = {};
    if (roi.image >= 0) {
      const T* const plane = features.data + roi.image * features.stride[0] + channel * features.stride[1];
      if (is_stored) {
        pool_taps(taps, i, j, from, plane, features.stride[2], features.stride[3], sum);
      } else {
        pool_points(roi, bins.row + i, bins.column + j, from, plane, features.stride[2], features.stride[3], sum);
      }
    }
    to.store(sum, out.data + k * out.stride[0] + channel * out.stride[1] + (bins.row + i) * out.stride[2] +
                      (bins.column + j) * out.stride[3]);
  }
}

template <int width, bool vectors, class T>
__global__ void __launch_bounds__(pool_threads, 4)
    pool_boxes(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Split split, View<T, 4> out) {
  __shared__ BoxTaps<compute_t<T>> taps;
#pragma unroll 1
  for (int64_t k = blockIdx.x; k < out.size[0]; k += gridDim.x) {
    const Roi roi = read_roi(boxes, k, pooling);
#pragma unroll 1
    for (unsigned part = blockIdx.y; part < split.parts; part += gridDim.y) {
      const unsigned chunk = part % split.chunks, piece = part / split.chunks;
      Bins bins{int64_t{piece / split.across} * split.rows, int64_t{piece % split.across} * split.columns, split.rows,
                split.columns};
      if (bins.row + bins.rows > pooling.out_height) bins.rows = static_cast<int>(pooling.out_height - bins.row);
      if (bins.column + bins.columns > pooling.out_width) {
        bins.columns = static_cast<int>(pooling.out_width - bins.column);
      }
      __syncthreads();  // before the taps of the last part are written over
      if (roi.image >= 0) find_taps(roi, bins, taps);
      pool_part<width, vectors>(features, roi, k, bins, taps, int64_t{chunk} * split.groups * width, split, out);
    }
  }
}

template <int width, bool vectors, class T>
void launch_pool(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                 bool inner, const View<T, 4>& out, Stream stream) {
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  const auto at_most = [](int64_t n, int64_t most) { return n < most ? n : most; };
  const int64_t groups = pieces(out.size[1], width);
  Split split{};
  // A kilobyte of channels side by side, or 64 planes: with the bins of a piece, work for a few rounds of the threads.
  split.groups = static_cast<int>(at_most(groups, inner ? 64 : 16));
  split.inner = inner;
  split.rows = static_cast<int>(at_most(pooling.out_height, most_bins));
  split.columns = static_cast<int>(at_most(pooling.out_width, most_bins));
  const int64_t across = pieces(pooling.out_width, split.columns), chunks = pieces(groups, split.groups);
  const auto parts = [&] { return across * chunks * pieces(pooling.out_height, split.rows); };
  // With few boxes each is shared by several blocks. 2,048 of them fill any GPU; the taps that each finds anew are few.
  while (out.size[0] * parts() < 2048 && split.rows > 1) split.rows = (split.rows + 1) / 2;
  if (parts() >= int64_t{1} << 32) fail("roi_align cannot make 2^32 or more parts of a box");
  split.across = static_cast<unsigned>(across);
  split.chunks = static_cast<unsigned>(chunks);
  split.parts = static_cast<unsigned>(parts());
  const dim3 grid(blocks_for(out.size[0], 1), static_cast<unsigned>(at_most(split.parts, 65535)));
  pool_boxes<width, vectors><<<grid, pool_threads, 0, stream>>>(features, boxes, pooling, split, out);
}

}  // namespace
