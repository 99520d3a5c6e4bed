// roi_align on a GPU: a block makes some bins of one box, of some channels.
//
// A thread makes one bin of a few channels. In channels_last features these are a vector of 16 bytes, and adjacent
// threads have adjacent vectors: each tap reads whole lines of memory. The blocks of all boxes take 256 bytes of
// channels before the next ones: so much of two images of 200 x 272 pixels stays in the second-level cache, and boxes
// lie over one another. In contiguous features a thread has four channels and its neighbours the adjacent bins, which
// write adjacent places and read pixels of the same rows; a tap's place and weight, looked up once, serve four loads.
// Staging a box's window in shared memory would read each pixel once, but of a large box most pixels have no weight,
// and of a small one the first-level cache holds them all.
#pragma once

#include "../_boxes/channels.cuh"
#include "../_boxes/parts.cuh"
#include "box_taps.cuh"

namespace opsmith::ops::roi_align {
namespace {

using boxes::Bins, boxes::bins_of, boxes::Channels, boxes::for_each_bin, boxes::grid_of, boxes::pool_threads,
    boxes::Split, boxes::split_boxes;

constexpr int chunk_groups = 16;  // vectors of 16 bytes

template <class C, int width, bool vectors, class T>
__device__ void pool_taps(const BoxTaps<C>& taps, int i, int j, const Channels<width, vectors>& channels, const T* from,
                          C (&sum)[width]) {
  const Tap<C>*const y = taps.y.tap + i * taps.y.slots, *const x = taps.x.tap + j * taps.x.slots;
  const int rows = taps.y.count[i], columns = taps.x.count[j];
#pragma unroll 1
  for (int u = 0; u < columns; u += taps_at_once) {
    const char* place[taps_at_once];
    C across[taps_at_once];
#pragma unroll
    for (int q = 0; q < taps_at_once; ++q) {
      place[q] = reinterpret_cast<const char*>(from) + x[u + q].offset;
      across[q] = x[u + q].weight;
    }
#pragma unroll 1
    for (int t = 0; t < rows; ++t) {
      const Tap<C> row = y[t];
      // All loads are on their way before the first is used.
      Vector<T, width> value[taps_at_once];
#pragma unroll
      for (int q = 0; q < taps_at_once; ++q) {
        if (u + q < columns) value[q] = channels.read(reinterpret_cast<const T*>(place[q] + row.offset));
      }
#pragma unroll
      for (int q = 0; q < taps_at_once; ++q) {
        if (u + q < columns) {
          const C weight = row.weight * across[q];
#pragma unroll
          for (int c = 0; c < width; ++c) sum[c] += weight * static_cast<C>(value[q].item[c]);
        }
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

// Where boxes are pooled from. `find` returns a box in the pixels of the features that it is pooled from, and these.
template <class T>
struct OneMap {
  View<const T, 4> map;
  Pooling pooling;

  __device__ Roi find(const View<const float, 2>& boxes, int64_t k, View<const T, 4>& features) const {
    features = map;
    return read_roi(boxes, k, pooling);
  }
};

template <int width, bool vectors, class T, class Maps>
__global__ void __launch_bounds__(pool_threads, vectors ? 8 : 4)  // registers for the loads of four taps
    pool_boxes(Maps maps, View<const float, 2> boxes, Split split, View<T, 4> out) {
  using C = compute_t<T>;
  __shared__ BoxTaps<C> taps;
#pragma unroll 1
  for (int64_t k = blockIdx.x; k < out.size[0]; k += gridDim.x) {
    View<const T, 4> features;
    const Roi roi = maps.find(boxes, k, features);
#pragma unroll 1
    for (unsigned part = blockIdx.y; part < split.parts; part += gridDim.y) {
      const Bins bins = bins_of(split, part, out);
      __syncthreads();  // before the taps of the last part are written over
      find_taps(roi, bins, features.stride[2] * sizeof(T), features.stride[3] * sizeof(T), taps);
      const T* const image = features.data + (roi.image < 0 ? 0 : roi.image) * features.stride[0];
      const auto make_bins = [&](const auto& pool) {
        for_each_bin<width>(split, part, bins, out.size[1], [&](int i, int j, int64_t channel, int count) {
          C sum[width] = {};
          pool(i, j, Channels<width, vectors>{features.stride[1], count}, image + channel * features.stride[1], sum);
          const Channels<width, vectors> to{out.stride[1], count};
          to.store(sum, &out(k, channel, bins.row + i, bins.column + j));
        });
      };
      if (taps.y.is_stored && taps.x.is_stored) {
        make_bins([&](int i, int j, const auto& channels, const T* from, C(&sum)[width]) {
          pool_taps(taps, i, j, channels, from, sum);
        });
      } else {
        make_bins([&](int i, int j, const auto& channels, const T* from, C(&sum)[width]) {
          pool_points(roi, bins.row + i, bins.column + j, channels, from, features.stride[2], features.stride[3], sum);
        });
      }
    }
  }
}

template <int width, bool vectors, class T, class Maps>
void launch_pool(const Maps& maps, const View<const float, 2>& boxes, bool inner, const View<T, 4>& out,
                 Stream stream) {
  const Split split = split_boxes("roi_align", out, width, inner, chunk_groups);
  pool_boxes<width, vectors><<<grid_of(split, out.size[0]), pool_threads, 0, stream>>>(maps, boxes, split, out);
}

}  // namespace
}  // namespace opsmith::ops::roi_align
