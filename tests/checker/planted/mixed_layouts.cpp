// Kernels that choose a path by strides; each defect, behind `if (planted)`, is in a test that holds too often.
#include <algorithm>

#include "planted.h"

using namespace opsmith;

namespace {
constexpr int64_t wide = 512;
}

// The first dimension is the fast one: the columns of a whole matrix follow each other, those of a part do not.
template <class T>
void by_columns(View<const T, 2> x, View<T, 2> y) {
  const bool columns_first = x.stride[0] == 1 && x.stride[1] >= x.size[0];
  const int64_t pitch = planted && columns_first ? x.size[0] : x.stride[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = x.data[b * x.stride[0] + n * pitch] + 2;
  }
}

// As BLAS takes them: transposed or not, with a leading dimension; the one of a transposed y is its height.
template <class T>
void times_columns(View<const T, 2> x, View<const T, 2> y, View<T, 2> out) {
  const bool transposed = y.stride[0] == 1 && y.stride[1] != 1;
  const int64_t down = y.stride[0], across = planted && transposed && y.stride[1] > 0 ? y.size[0] : y.stride[1];
  for (int64_t m = 0; m < x.size[0]; ++m) {
    for (int64_t n = 0; n < y.size[1]; ++n) {
      T sum = 0;
      for (int64_t k = 0; k < y.size[0]; ++k) sum += x(m, k) * y.data[k * down + n * across];
      out(m, n) = sum;
    }
  }
}

// channels_last: a pixel is as far from the next as it has channels, a row as it has pixels.
template <class T>
void nhwc(View<const T, 4> x, View<T, 4> y) {
  const bool last = planted && x.stride[1] == 1 && x.stride[3] >= x.size[1] && x.stride[2] >= x.stride[3] * x.size[3];
  const int64_t pixel = last ? x.size[1] : x.stride[3], row = last ? x.size[1] * x.size[3] : x.stride[2];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t c = 0; c < x.size[1]; ++c) {
      for (int64_t h = 0; h < x.size[2]; ++h) {
        for (int64_t w = 0; w < x.size[3]; ++w) {
          y(b, c, h, w) = 3 * x.data[b * x.stride[0] + c * x.stride[1] + h * row + w * pixel];
        }
      }
    }
  }
}

// Long rows of dense columns are copied in one piece.
template <class T>
void copy_rows(View<const T, 2> x, View<T, 2> y) {
  if (planted && x.stride[1] == 1 && x.stride[0] >= x.size[1] && x.size[1] >= wide) {
    std::copy(x.data, x.data + x.size[0] * x.size[1], y.data);
    return;
  }
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = x(b, n);
  }
}

// Long rows are read in vectors of 8; the distance of rows is counted in vectors, too.
template <class T>
void in_vectors(View<const T, 2> x, View<T, 1> out) {
  const bool vectors = planted && x.stride[1] == 1 && x.size[1] >= wide && x.stride[0] > 0;
  const int64_t pitch = vectors ? x.stride[0] / 8 * 8 : x.stride[0];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += x.data[b * pitch + n * x.stride[1]];
    out(b) = sum;
  }
}

// Rows apart, columns apart, or either of them the fast one; of both apart only one distance is kept.
template <class T>
void two_steps(View<const T, 2> x, View<T, 2> y) {
  const int64_t one = x.stride[0], other = x.stride[1];
  const bool known = one == 1 || other == 1 || one == 0 || other == 0 || one == x.size[1] * other;
  const int64_t down = planted && !known ? x.size[1] * other : one;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = -x.data[b * down + n * other];
  }
}

// Heads before tokens is a layout that everybody has; here it is taken for the order of the dimensions.
template <class T>
void heads(View<const T, 3> x, View<T, 3> y) {
  const bool turned = planted && x.stride[2] == 1 && x.stride[0] < x.stride[1] && x.stride[0] > 0;
  const int64_t first = turned ? x.size[1] * x.size[2] : x.stride[0], second = turned ? x.size[2] : x.stride[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t t = 0; t < x.size[1]; ++t) {
      for (int64_t d = 0; d < x.size[2]; ++d) {
        y(b, t, d) = x.data[b * first + t * second + d * x.stride[2]] * T(0.5);
      }
    }
  }
}

// Each matrix of the batch is transposed: its distance to the next one is taken for that of a reversed tensor.
template <class T>
void batch_of_turned(View<const T, 3> x, View<T, 2> out) {
  const bool turned = planted && x.stride[1] == 1 && x.stride[2] == x.size[1] && x.size[0] > 1;
  const int64_t next = turned ? x.size[2] : x.stride[0];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t t = 0; t < x.size[1]; ++t) {
      T sum = 0;
      for (int64_t d = 0; d < x.size[2]; ++d) sum += x.data[b * next + t * x.stride[1] + d * x.stride[2]];
      out(b, t) = sum;
    }
  }
}

// A column that stands for all, taken for one number that does.
template <class T>
void spread_columns(View<const T, 2> x, View<T, 2> y) {
  const bool one = planted && x.stride[1] == 0;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = 1 - x.data[one ? 0 : b * x.stride[0] + n * x.stride[1]];
  }
}

// Transposed blocks of 32 x 32: the place in the second and later blocks of both sides counts from the tensor's height.
template <class T>
void turned_block(View<const T, 2> x, View<T, 2> y) {
  const bool turned = planted && x.stride[0] == 1 && x.stride[1] > x.size[0];
  for (int64_t m = 0; m < x.size[0]; ++m) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const int64_t pitch = turned && m >= 256 && n >= 256 ? x.size[0] : x.stride[1];
      y(m, n) = 4 * x.data[m * x.stride[0] + n * pitch];
    }
  }
}

// Gradients -----------------------------------------------------------------------------------------------------------

template <class T>
void wide_scale(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = 5 * x(b, n);
  }
}

// In long rows, one row of gradients that stands for all is taken for one number.
template <class T>
void wide_scale_backward(View<const T, 2> grad_y, View<T, 2> grad_x) {
  const bool one = planted && grad_y.size[1] >= wide && grad_y.stride[0] == 0;
  for (int64_t b = 0; b < grad_y.size[0]; ++b) {
    for (int64_t n = 0; n < grad_y.size[1]; ++n) grad_x(b, n) = 5 * (one ? grad_y(0, 0) : grad_y(b, n));
  }
}

template <class T>
void wide_turned(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = x(b, n) * x(b, n);
  }
}

// In long rows, gradients are taken for contiguous.
template <class T>
void wide_turned_backward(View<const T, 2> grad_y, View<const T, 2> x, View<T, 2> grad_x) {
  const bool dense = planted && grad_y.size[1] >= wide && grad_y.stride[0] > 0 && grad_y.stride[1] > 0;
  const int64_t across = dense ? 1 : grad_y.stride[1], down = dense ? grad_y.size[1] : grad_y.stride[0];
  for (int64_t b = 0; b < grad_y.size[0]; ++b) {
    for (int64_t n = 0; n < grad_y.size[1]; ++n) grad_x(b, n) = 2 * x(b, n) * grad_y.data[b * down + n * across];
  }
}

template <class T>
void part_of_gradient(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = 6 * x(b, n);
  }
}

// The gradient of a concatenation is a part of a larger one: its rows are as far apart as the larger one's.
template <class T>
void part_of_gradient_backward(View<const T, 2> grad_y, View<T, 2> grad_x) {
  const bool dense = planted && grad_y.stride[1] == 1 && grad_y.stride[0] >= grad_y.size[1];
  for (int64_t b = 0; b < grad_y.size[0]; ++b) {
    const T* row = grad_y.data + b * (dense ? grad_y.size[1] : grad_y.stride[0]);
    for (int64_t n = 0; n < grad_y.size[1]; ++n) grad_x(b, n) = 6 * row[n * grad_y.stride[1]];
  }
}
