// RoIAlign as a textbook has it: for each box the four pixels and weights of each sampling point, then, channel by
// channel, the mean over the points of each bin. NCHW, float32, aligned, one thread. Compiled with -O3 it is what
// benchmarks/roi_align.py times against.
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct Point {
  int64_t pixel[4];
  float weight[4];
};

// The sampling points of a box, bin after bin.
std::vector<Point> find_points(const float* box, float scale, int64_t height, int64_t width, int64_t bins,
                               int64_t samples) {
  const float left = box[1] * scale - 0.5f, top = box[2] * scale - 0.5f;
  const float bin_x = (box[3] * scale - 0.5f - left) / static_cast<float>(bins);
  const float bin_y = (box[4] * scale - 0.5f - top) / static_cast<float>(bins);
  std::vector<Point> points;
  for (int64_t i = 0; i < bins; ++i) {
    for (int64_t j = 0; j < bins; ++j) {
      for (int64_t a = 0; a < samples; ++a) {
        for (int64_t b = 0; b < samples; ++b) {
          float y =
              top + (static_cast<float>(i) + (static_cast<float>(a) + 0.5f) / static_cast<float>(samples)) * bin_y;
          float x =
              left + (static_cast<float>(j) + (static_cast<float>(b) + 0.5f) / static_cast<float>(samples)) * bin_x;
          Point point{};
          if (y >= -1 && y <= static_cast<float>(height) && x >= -1 && x <= static_cast<float>(width)) {
            y = std::fmin(std::fmax(y, 0.0f), static_cast<float>(height - 1));
            x = std::fmin(std::fmax(x, 0.0f), static_cast<float>(width - 1));
            const int64_t row = static_cast<int64_t>(y), column = static_cast<int64_t>(x);
            const int64_t down = row + 1 < height ? row + 1 : row, right = column + 1 < width ? column + 1 : column;
            const float dy = y - static_cast<float>(row), dx = x - static_cast<float>(column);
            point = {{row * width + column, row * width + right, down * width + column, down * width + right},
                     {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}};
          }
          points.push_back(point);
        }
      }
    }
  }
  return points;
}

}  // namespace

extern "C" void textbook_roi_align(const float* features, const float* boxes, int64_t count, int64_t channels,
                                   int64_t height, int64_t width, int64_t bins, int64_t samples, float scale,
                                   float* out) {
  const int64_t points_in_bin = samples * samples;
  for (int64_t k = 0; k < count; ++k) {
    const float* box = boxes + 5 * k;
    const std::vector<Point> points = find_points(box, scale, height, width, bins, samples);
    for (int64_t c = 0; c < channels; ++c) {
      const float* plane = features + (static_cast<int64_t>(box[0]) * channels + c) * height * width;
      const Point* point = points.data();
      for (int64_t bin = 0; bin < bins * bins; ++bin) {
        float sum = 0;
        for (int64_t n = 0; n < points_in_bin; ++n, ++point) {
          for (int corner = 0; corner < 4; ++corner) sum += point->weight[corner] * plane[point->pixel[corner]];
        }
        *out++ = sum / static_cast<float>(points_in_bin);
      }
    }
  }
}

// `grad_features` is zero.
extern "C" void textbook_roi_align_backward(const float* grad_out, const float* boxes, int64_t count, int64_t channels,
                                            int64_t height, int64_t width, int64_t bins, int64_t samples, float scale,
                                            float* grad_features) {
  const int64_t points_in_bin = samples * samples;
  for (int64_t k = 0; k < count; ++k) {
    const float* box = boxes + 5 * k;
    const std::vector<Point> points = find_points(box, scale, height, width, bins, samples);
    for (int64_t c = 0; c < channels; ++c) {
      float* plane = grad_features + (static_cast<int64_t>(box[0]) * channels + c) * height * width;
      const Point* point = points.data();
      for (int64_t bin = 0; bin < bins * bins; ++bin) {
        const float share = *grad_out++ / static_cast<float>(points_in_bin);
        for (int64_t n = 0; n < points_in_bin; ++n, ++point) {
          for (int corner = 0; corner < 4; ++corner) plane[point->pixel[corner]] += share * point->weight[corner];
        }
      }
    }
  }
}
