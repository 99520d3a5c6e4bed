// roi_pool on a GPU, for calls without a plan: a thread makes one bin of a few channels, which it reads pixel by pixel.
#pragma once

#include "../_boxes/channels.cuh"
#include "../_boxes/parts.cuh"
#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

using boxes::Bins, boxes::bins_of, boxes::Channels, boxes::for_each_bin, boxes::grid_of, boxes::pool_threads,
    boxes::Split, boxes::split_boxes;

template <int width, bool vectors, class T>
__global__ void __launch_bounds__(pool_threads)
    pool_boxes(View<const T, 4> features, View<const float, 2> boxes, Pooling pooling, Split split, View<T, 4> out,
               View<int32_t, 4> argmax) {
  using C = compute_t<T>;
#pragma unroll 1
  for (int64_t k = blockIdx.x; k < out.size[0]; k += gridDim.x) {
    const Roi roi = pooling.read_roi(boxes, k);
#pragma unroll 1
    for (unsigned part = blockIdx.y; part < split.parts; part += gridDim.y) {
      const Bins bins = bins_of(split, part, out);
      for_each_bin<width>(split, part, bins, out.size[1], [&](int i, int j, int64_t channel, int count) {
        const int64_t row = bins.row + i, column = bins.column + j;
        const Range y = roi.y.range(row), x = roi.x.range(column);
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

template <int width, bool vectors, class T>
void launch_pool(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                 bool inner, const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  const Split split = split_boxes("roi_pool", out, width, inner);
  pool_boxes<width, vectors>
      <<<grid_of(split, out.size[0]), pool_threads, 0, stream>>>(features, boxes, pooling, split, out, argmax);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
