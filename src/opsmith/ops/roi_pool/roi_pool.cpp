// roi_pool on the CPU: a box and a channel at a time, and the gradient a plane at a time.
//
// A plane of the gradient belongs to one thread, which adds up its boxes in their order: results do not depend on the
// number of threads.
#include "roi_pool.h"

#include <opsmith/block.h>

#include <vector>

using namespace opsmith;
using namespace opsmith::ops::roi_pool;

namespace opsmith::ops::roi_pool {
namespace {

// The largest pixel of a rectangle of a plane; -1 in an empty one.
template <class T>
int64_t largest_pixel(const T* plane, int64_t row, int64_t column, int64_t width, Range y, Range x) {
  int64_t best = -1;
  compute_t<T> most = 0;
  for (int64_t i = y.low; i < y.high; ++i) {
    for (int64_t j = x.low; j < x.high; ++j) {
      const compute_t<T> value = plane[i * row + j * column];
      if (best < 0 || is_larger(value, most)) {
        best = i * width + j;
        most = value;
      }
    }
  }
  return best;
}

}  // namespace
}  // namespace opsmith::ops::roi_pool

template <class T>
void roi_pool_sized(View<const T, 4> features, View<const float, 2> boxes, PoolSizes bins, bool needs_argmax,
                    View<T, 4> out, View<int32_t, 4> argmax) {
  const Pooling pooling = read_arguments(bins);
  if (out.numel() == 0) return;
  const int64_t channels = out.size[1], out_height = out.size[2], out_width = out.size[3];
  parallel_for(0, out.size[0], 1, [&](int64_t begin, int64_t end) {
    std::vector<Range> rows(static_cast<size_t>(out_height)), columns(static_cast<size_t>(out_width));
    for (int64_t k = begin; k < end; ++k) {
      const Roi roi = pooling.read_roi(boxes, k);
      const auto find = [&](const Side& side, std::vector<Range>& ranges) {
        for (size_t bin = 0; bin < ranges.size(); ++bin) {
          ranges[bin] = roi.image < 0 ? Range{0, 0} : side.range(static_cast<int64_t>(bin));
        }
      };
      find(roi.y, rows);
      find(roi.x, columns);
      for (int64_t c = 0; c < channels; ++c) {
        const T* plane = features.data + (roi.image < 0 ? 0 : roi.image * features.stride[0]) + c * features.stride[1];
        for (int64_t i = 0; i < out_height; ++i) {
          for (int64_t j = 0; j < out_width; ++j) {
            const int64_t pixel = largest_pixel(plane, features.stride[2], features.stride[3], bins.width,
                                                rows[static_cast<size_t>(i)], columns[static_cast<size_t>(j)]);
            if (needs_argmax) argmax(k, c, i, j) = static_cast<int32_t>(pixel);
            out(k, c, i, j) =
                pixel < 0 ? T(compute_t<T>{0})
                          : plane[pixel / bins.width * features.stride[2] + pixel % bins.width * features.stride[3]];
          }
        }
      }
    }
  });
}

template <class T>
void roi_pool_backward(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax,
                       ImageSizes at, View<T, 4> grad_features) {
  using C = compute_t<T>;
  const Pooling pooling =
      read_arguments({at.images, at.height, at.width, grad_out.size[2], grad_out.size[3], at.spatial_scale});
  if (grad_features.numel() == 0) return;
  const int64_t channels = grad_features.size[1], count = grad_out.size[0];
  const int64_t images = at.images, height = at.height, width = at.width, pixels = height * width;
  std::vector<std::vector<int64_t>> of_image(static_cast<size_t>(images));
  for (int64_t k = 0; k < count; ++k) {
    const int64_t image = pooling.read_roi(boxes, k).image;
    if (image >= 0) of_image[static_cast<size_t>(image)].push_back(k);
  }
  parallel_for(0, images * channels, 1, [&](int64_t begin, int64_t end) {
    std::vector<C> plane;
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t image = piece / channels, c = piece % channels;
      plane.assign(static_cast<size_t>(pixels), C{0});
      for (const int64_t k : of_image[static_cast<size_t>(image)]) {
        for (int64_t i = 0; i < grad_out.size[2]; ++i) {
          for (int64_t j = 0; j < grad_out.size[3]; ++j) {
            const int64_t pixel = argmax(k, c, i, j);
            if (pixel >= 0 && pixel < pixels) plane[static_cast<size_t>(pixel)] += static_cast<C>(grad_out(k, c, i, j));
          }
        }
      }
      for (int64_t y = 0; y < height; ++y) {
        store_block<T>(plane.data() + y * width, width, &grad_features(image, c, y, 0), grad_features.stride[3]);
      }
    }
  });
}
