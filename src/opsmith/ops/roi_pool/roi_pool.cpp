// roi_pool on the CPU: a box and a channel at a time, and the gradient a plane at a time.
//
// A plane of the gradient belongs to one thread, which adds up its boxes in their order: results do not depend on the
// number of threads.
#include <opsmith/block.h>
#include <opsmith/kernel.h>

#include <cmath>
#include <vector>

using namespace opsmith;

namespace {

constexpr float farthest = 1024.0f * 1024.0f;  // in pixels of the features

// The pixels [low, high) along an axis.
struct Range {
  int64_t low, high;
};

// The pixels of each bin along an axis. Both edges of a box are pixels of it.
inline void find_ranges(float from, float to, int64_t size, int64_t bins, std::vector<Range>& ranges) {
  const float start = std::round(from), length = std::fmax(std::round(to) - start + 1.0f, 1.0f);
  const float bin = length / static_cast<float>(bins);
  const auto inside = [&](float pixel) {
    return pixel < 0 ? 0 : pixel > static_cast<float>(size) ? size : static_cast<int64_t>(pixel);
  };
  ranges.clear();
  for (int64_t i = 0; i < bins; ++i) {
    const float low = std::floor(static_cast<float>(i) * bin), high = std::ceil(static_cast<float>(i + 1) * bin);
    ranges.push_back({inside(low + start), inside(high + start)});
  }
}

// The image of a box, or -1 where the box is none; its edges times the scale.
inline int64_t read_box(const View<const float, 2>& boxes, int64_t k, float scale, int64_t images, float* edges) {
  const float index = std::trunc(boxes(k, 0));
  bool good = index >= 0.0f && index < static_cast<float>(images);
  for (int i = 0; i < 4; ++i) {
    edges[i] = boxes(k, i + 1) * scale;
    good = good && edges[i] >= -farthest && edges[i] <= farthest;  // false for NaN
  }
  return good ? static_cast<int64_t>(index) : -1;
}

// The largest pixel of a rectangle of a plane, the first of equal ones, a NaN above all; -1 in an empty one.
template <class T>
int64_t largest_pixel(const T* plane, int64_t row, int64_t column, int64_t width, Range y, Range x) {
  int64_t best = -1;
  compute_t<T> most = 0;
  for (int64_t i = y.low; i < y.high; ++i) {
    for (int64_t j = x.low; j < x.high; ++j) {
      const compute_t<T> value = plane[i * row + j * column];
      if (best < 0 || value > most || (value != value && most == most)) {
        best = i * width + j;
        most = value;
      }
    }
  }
  return best;
}

}  // namespace

template <class T>
void roi_pool_sized(View<const T, 4> features, View<const float, 2> boxes, int64_t images, int64_t height,
                    int64_t width, int64_t out_height, int64_t out_width, double spatial_scale, View<T, 4> out,
                    View<int64_t, 4> argmax) {
  if (out.numel() == 0) return;
  const int64_t channels = out.size[1];
  parallel_for(0, out.size[0], 1, [&](int64_t begin, int64_t end) {
    std::vector<Range> rows, columns;
    for (int64_t k = begin; k < end; ++k) {
      float edges[4];
      const int64_t image = read_box(boxes, k, static_cast<float>(spatial_scale), images, edges);
      if (image < 0) {
        rows.assign(static_cast<size_t>(out_height), {0, 0});
        columns.assign(static_cast<size_t>(out_width), {0, 0});
      } else {
        find_ranges(edges[1], edges[3], height, out_height, rows);
        find_ranges(edges[0], edges[2], width, out_width, columns);
      }
      for (int64_t c = 0; c < channels; ++c) {
        const T* plane = features.data + (image < 0 ? 0 : image * features.stride[0]) + c * features.stride[1];
        for (int64_t i = 0; i < out_height; ++i) {
          for (int64_t j = 0; j < out_width; ++j) {
            const int64_t pixel = largest_pixel(plane, features.stride[2], features.stride[3], width,
                                                rows[static_cast<size_t>(i)], columns[static_cast<size_t>(j)]);
            argmax(k, c, i, j) = pixel;
            out(k, c, i, j) = pixel < 0
                                  ? T(compute_t<T>{0})
                                  : plane[pixel / width * features.stride[2] + pixel % width * features.stride[3]];
          }
        }
      }
    }
  });
}

template <class T>
void roi_pool_backward(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int64_t, 4> argmax,
                       int64_t images, int64_t height, int64_t width, View<T, 4> grad_features) {
  using C = compute_t<T>;
  if (grad_features.numel() == 0) return;
  const int64_t channels = grad_features.size[1], count = grad_out.size[0], pixels = height * width;
  std::vector<std::vector<int64_t>> of_image(static_cast<size_t>(images));
  for (int64_t k = 0; k < count; ++k) {
    const float index = std::trunc(boxes(k, 0));
    if (index >= 0.0f && index < static_cast<float>(images)) of_image[static_cast<size_t>(index)].push_back(k);
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
