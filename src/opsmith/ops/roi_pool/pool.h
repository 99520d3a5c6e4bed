// roi_pool on a GPU: a thread makes one bin of a few channels, which it reads pixel by pixel.
#pragma once

#include "../roi_align/channels.h"
#include "../roi_align/parts.h"
#include "roi_pool.h"

namespace {

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
        C most[width] = {};
        int32_t place[width];
#pragma unroll
        for (int c = 0; c < width; ++c) place[c] = -1;
        if (roi.image >= 0) {
          const Channels<width, vectors> from{features.stride[1], count};
          const Range y = roi.y.range(bins.row + i), x = roi.x.range(bins.column + j);
          const T* const plane = features.data + roi.image * features.stride[0] + channel * features.stride[1];
#pragma unroll 1
          for (int64_t row = y.low; row < y.high; ++row) {
            const T* const line = plane + row * features.stride[2];
#pragma unroll 4
            for (int64_t column = x.low; column < x.high; ++column) {
              C value[width];
              from.load(line + column * features.stride[3], value);
              const int32_t pixel = static_cast<int32_t>(row * pooling.width + column);
#pragma unroll
              for (int c = 0; c < width; ++c) {
                if (place[c] < 0 || is_larger(value[c], most[c])) most[c] = value[c], place[c] = pixel;
              }
            }
          }
        }
        const int64_t row = bins.row + i, column = bins.column + j;
        Channels<width, vectors>{out.stride[1], count}.store(most, &out(k, channel, row, column));
        Channels<width, vectors>{argmax.stride[1], count}.store(place, &argmax(k, channel, row, column));
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
