// Deformable convolution (version 2) as a textbook has it: a matrix of all samples, one image at a time, and three
// loops for each product. NCHW, float32, one group, one thread. Compiled with -O3 it is what
// benchmarks/deform_conv2d.py times against.
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct Sizes {
  int64_t images, channels, height, width, outputs, kernel, pad;

  int64_t out_height() const { return height + 2 * pad - kernel + 1; }
  int64_t out_width() const { return width + 2 * pad - kernel + 1; }
  int64_t positions() const { return out_height() * out_width(); }
  int64_t taps() const { return kernel * kernel; }
  int64_t rows() const { return channels * taps(); }
};

// A pixel, or 0 outside of the image.
float pixel(const float* plane, int64_t y, int64_t x, const Sizes& sizes) {
  return y >= 0 && y < sizes.height && x >= 0 && x < sizes.width ? plane[y * sizes.width + x] : 0.0f;
}

struct Point {
  int64_t y, x;
  float dy, dx;
};

Point find_point(const float* offset, int64_t tap, int64_t position, const Sizes& sizes) {
  const int64_t i = position / sizes.out_width(), j = position % sizes.out_width();
  const float y =
      static_cast<float>(i - sizes.pad + tap / sizes.kernel) + offset[2 * tap * sizes.positions() + position];
  const float x =
      static_cast<float>(j - sizes.pad + tap % sizes.kernel) + offset[(2 * tap + 1) * sizes.positions() + position];
  const float top = std::floor(y), left = std::floor(x);
  return {static_cast<int64_t>(top), static_cast<int64_t>(left), y - top, x - left};
}

// The matrix of samples [channel * taps + tap][position] of an image.
void sample(const float* image, const float* offset, const float* mask, const Sizes& sizes, float* columns) {
  for (int64_t c = 0; c < sizes.channels; ++c) {
    const float* plane = image + c * sizes.height * sizes.width;
    for (int64_t tap = 0; tap < sizes.taps(); ++tap) {
      for (int64_t p = 0; p < sizes.positions(); ++p) {
        const Point at = find_point(offset, tap, p, sizes);
        const float value =
            (1 - at.dy) *
                ((1 - at.dx) * pixel(plane, at.y, at.x, sizes) + at.dx * pixel(plane, at.y, at.x + 1, sizes)) +
            at.dy *
                ((1 - at.dx) * pixel(plane, at.y + 1, at.x, sizes) + at.dx * pixel(plane, at.y + 1, at.x + 1, sizes));
        *columns++ = mask[tap * sizes.positions() + p] * value;
      }
    }
  }
}

void add_pixel(float* plane, int64_t y, int64_t x, float value, const Sizes& sizes) {
  if (y >= 0 && y < sizes.height && x >= 0 && x < sizes.width) plane[y * sizes.width + x] += value;
}

}  // namespace

extern "C" void textbook_deform_conv2d(const float* input, const float* offset, const float* mask, const float* weight,
                                       Sizes sizes, float* out) {
  std::vector<float> columns(static_cast<std::size_t>(sizes.rows() * sizes.positions()));
  for (int64_t n = 0; n < sizes.images; ++n) {
    sample(input + n * sizes.channels * sizes.height * sizes.width, offset + n * 2 * sizes.taps() * sizes.positions(),
           mask + n * sizes.taps() * sizes.positions(), sizes, columns.data());
    for (int64_t o = 0; o < sizes.outputs; ++o, out += sizes.positions()) {
      for (int64_t p = 0; p < sizes.positions(); ++p) out[p] = 0;
      for (int64_t r = 0; r < sizes.rows(); ++r) {
        const float factor = weight[o * sizes.rows() + r];
        const float* column = columns.data() + r * sizes.positions();
        for (int64_t p = 0; p < sizes.positions(); ++p) out[p] += factor * column[p];
      }
    }
  }
}

// The gradients are zero before.
extern "C" void textbook_deform_conv2d_backward(const float* grad_out, const float* input, const float* offset,
                                                const float* mask, const float* weight, Sizes sizes, float* grad_input,
                                                float* grad_offset, float* grad_mask, float* grad_weight) {
  const int64_t positions = sizes.positions(), rows = sizes.rows(), plane_size = sizes.height * sizes.width;
  std::vector<float> columns(static_cast<std::size_t>(rows * positions));
  for (int64_t n = 0; n < sizes.images; ++n) {
    const float* outer = grad_out + n * sizes.outputs * positions;
    const float* shift = offset + n * 2 * sizes.taps() * positions;
    const float* share = mask + n * sizes.taps() * positions;
    // The gradient of the samples: the weights, transposed, times the output's gradient.
    for (int64_t r = 0; r < rows; ++r) {
      float* column = columns.data() + r * positions;
      for (int64_t p = 0; p < positions; ++p) column[p] = 0;
      for (int64_t o = 0; o < sizes.outputs; ++o) {
        const float factor = weight[o * rows + r];
        for (int64_t p = 0; p < positions; ++p) column[p] += factor * outer[o * positions + p];
      }
    }
    for (int64_t c = 0; c < sizes.channels; ++c) {
      const float* plane = input + (n * sizes.channels + c) * plane_size;
      float* grad_plane = grad_input + (n * sizes.channels + c) * plane_size;
      for (int64_t tap = 0; tap < sizes.taps(); ++tap) {
        for (int64_t p = 0; p < positions; ++p) {
          const Point at = find_point(shift, tap, p, sizes);
          const float gradient = columns[static_cast<std::size_t>((c * sizes.taps() + tap) * positions + p)];
          const float masked = gradient * share[tap * positions + p];
          const float a = pixel(plane, at.y, at.x, sizes), b = pixel(plane, at.y, at.x + 1, sizes);
          const float d = pixel(plane, at.y + 1, at.x, sizes), e = pixel(plane, at.y + 1, at.x + 1, sizes);
          float* to = grad_offset + (n * 2 * sizes.taps() + 2 * tap) * positions + p;
          to[0] += masked * ((1 - at.dx) * (d - a) + at.dx * (e - b));
          to[positions] += masked * ((1 - at.dy) * (b - a) + at.dy * (e - d));
          grad_mask[(n * sizes.taps() + tap) * positions + p] +=
              gradient * ((1 - at.dy) * ((1 - at.dx) * a + at.dx * b) + at.dy * ((1 - at.dx) * d + at.dx * e));
          add_pixel(grad_plane, at.y, at.x, masked * (1 - at.dy) * (1 - at.dx), sizes);
          add_pixel(grad_plane, at.y, at.x + 1, masked * (1 - at.dy) * at.dx, sizes);
          add_pixel(grad_plane, at.y + 1, at.x, masked * at.dy * (1 - at.dx), sizes);
          add_pixel(grad_plane, at.y + 1, at.x + 1, masked * at.dy * at.dx, sizes);
        }
      }
    }
    sample(input + n * sizes.channels * plane_size, shift, share, sizes, columns.data());
    for (int64_t o = 0; o < sizes.outputs; ++o) {
      for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
        for (int64_t p = 0; p < positions; ++p) {
          sum += outer[o * positions + p] * columns[static_cast<std::size_t>(r * positions + p)];
        }
        grad_weight[o * rows + r] += sum;
      }
    }
  }
}
