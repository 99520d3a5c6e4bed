// roi_pool on a GPU, box by box: a thread makes one bin of a few channels, which it reads pixel by pixel.
#pragma once

#include "../_boxes/channels.cuh"
#include "../_boxes/parts.cuh"
#include "plan.cuh"
#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Bins, boxes::bins_of, boxes::Channels, boxes::for_each_bin, boxes::grid_of, boxes::pool_threads,
    boxes::Split, boxes::split_boxes;

// `most` pixels along both axes, or fewer: such bins have been made elsewhere. With -1 there are none.
__device__ inline bool is_small(const Range& y, const Range& x, int most) {
  return y.high - y.low <= most && x.high - x.low <= most;
}

// Whether all bins of a box are so. Rounded outwards, a bin has a pixel more than its length.
__device__ inline bool are_small(const Roi& roi, int most) {
  return ceilf(roi.y.bin) + 1 <= static_cast<float>(most) && ceilf(roi.x.bin) + 1 <= static_cast<float>(most);
}

// Bins of up to `small` pixels along both axes have been made elsewhere. Does nothing where the plan is for small
// boxes.
template <int width, bool vectors, class T>
__global__ void __launch_bounds__(pool_threads)
    pool_boxes(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Split split, int small,
               Plan plan, View<T, 4> out, View<int32_t, 4> argmax) {
  using C = compute_t<T>;
  if (!is_for_large(plan)) return;
#pragma unroll 1
  for (int64_t k = blockIdx.x; k < out.size[0]; k += gridDim.x) {
    const Roi roi = pooling.read_roi(boxes, k);
    if (are_small(roi, small)) continue;
#pragma unroll 1
    for (unsigned part = blockIdx.y; part < split.parts; part += gridDim.y) {
      const Bins bins = bins_of(split, part, out);
      for_each_bin<width>(split, part, bins, out.size[1], [&](int i, int j, int64_t channel, int count) {
        const int64_t row = bins.row + i, column = bins.column + j;
        const Range y = roi.y.range(row), x = roi.x.range(column);
        if (is_small(y, x, small)) return;
        C most[width] = {};
        int32_t place[width];
#pragma unroll
        for (int c = 0; c < width; ++c) place[c] = -1;
        const Channels<width, vectors> from{features.stride[1], count};
        const T* const plane = features.data + roi.image * features.stride[0] + channel * features.stride[1];
#pragma unroll 1
        for (int64_t v = y.low; v < y.high; ++v) {
          const T* const line = plane + v * features.stride[2];
#pragma unroll 4
          for (int64_t u = x.low; u < x.high; ++u) {
            C value[width];
            from.load(line + u * features.stride[3], value);
            const int32_t pixel = static_cast<int32_t>(v * pooling.width + u);
#pragma unroll
            for (int c = 0; c < width; ++c) {
              if (place[c] < 0 || is_larger(value[c], most[c])) most[c] = value[c], place[c] = pixel;
            }
          }
        }
        Channels<width, vectors>{out.stride[1], count}.store(most, &out(k, channel, row, column));
        if (argmax) Channels<width, vectors>{argmax.stride[1], count}.store(place, &argmax(k, channel, row, column));
      });
    }
  }
}

// Makes the bins that are not small; none where the plan is for small boxes.
template <int width, bool vectors, class T>
void launch_pool(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                 bool inner, int small, const Plan& plan, const View<T, 4>& out, const View<int32_t, 4>& argmax,
                 Stream stream) {
  const Split split = split_boxes("roi_pool", out, width, inner);
  launch_early<pool_boxes<width, vectors, T>>("roi_pool_sized", grid_of(split, out.size[0]), pool_threads, 0, stream,
                                              features, boxes, pooling, split, small, plan, out, argmax);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
