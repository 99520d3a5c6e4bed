// Correct view kernels that refuse what their bodies would take, or that have tiles and paths for some strides.
#include <opsmith/kernel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

using namespace opsmith;

template <class T>
void low_power(View<const T, 1> x, int64_t order, View<T, 1> y) {
  if (order < 0 || order > 3) fail("order is ", order, "; there are kernels for 0 to 3");
  for (int64_t n = 0; n < x.size[0]; ++n) {
    T power = 1;
    for (int64_t k = 0; k < order; ++k) power *= x(n);
    y(n) = power;
  }
}

template <class T>
void kept(View<const T, 1> x, double part, View<T, 1> y) {
  if (!(part >= 0 && part <= 1)) fail("part is ", part, "; it is 0 to 1");
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(x(n) * part + (1 - part));
}

template <class T>
void counted_from_one(View<const T, 2> table, View<const int64_t, 1> place, View<T, 2> out) {
  for (int64_t m = 0; m < place.size[0]; ++m) {
    if (place(m) < 1 || place(m) > table.size[0]) fail("place ", place(m), " is not in a table of ", table.size[0]);
    for (int64_t n = 0; n < table.size[1]; ++n) out(m, n) = table(place(m) - 1, n);
  }
}

template <class T, class I>
void from_either_end(View<const T, 2> x, View<const I, 1> index, View<T, 1> out) {
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const int64_t at = int64_t(index(b));
    if (at < -count || at >= count) fail("index ", at, " is outside of a row of ", count);
    out(b) = x(b, at < 0 ? at + count : at);
  }
}

template <class T>
void padded_rows(View<const T, 2> table, View<const int64_t, 1> index, int64_t padding, View<T, 2> y) {
  if (padding >= table.size[0]) fail("padding is ", padding, " in a table of ", table.size[0]);
  for (int64_t m = 0; m < index.size[0]; ++m) {
    if (index(m) < 0 || index(m) >= table.size[0]) fail("index ", index(m), " is outside of ", table.size[0], " rows");
    for (int64_t n = 0; n < table.size[1]; ++n) y(m, n) = table(index(m), n);
  }
}

template <class T>
void padded_rows_backward(View<const T, 2> grad_y, View<const T, 2> table, View<const int64_t, 1> index,
                          int64_t padding, View<T, 2> grad_table) {
  for (int64_t v = 0; v < table.size[0]; ++v) {
    for (int64_t n = 0; n < table.size[1]; ++n) grad_table(v, n) = 0;
  }
  for (int64_t m = 0; m < index.size[0]; ++m) {
    if (index(m) == padding) continue;
    for (int64_t n = 0; n < table.size[1]; ++n) grad_table(index(m), n) += grad_y(m, n);
  }
}

void in_double(View<const double, 1> x, View<double, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = std::cos(x(n)) * std::cos(x(n)) - std::sin(x(n)) * std::sin(x(n));
}

void bit_of_sign(View<const float, 1> x, View<float, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const float value = x(n);
    int32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    y(n) = float(bits >> 31);
  }
}

void quarter_turn(View<const float, 2> x, View<const double, 1> scale, View<float, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    y(b, 0) = (0 * x(b, 0) - x(b, 1)) * float(scale(b));
    y(b, 1) = (x(b, 0) + 0 * x(b, 1)) * float(scale(b));
  }
}

// Tiles of 256 x 256 that end where the matrix does.
template <class T>
void turned_in_tiles(View<const T, 2> x, View<T, 2> y) {
  constexpr int64_t tile = 256;
  for (int64_t top = 0; top < x.size[0]; top += tile) {
    for (int64_t left = 0; left < x.size[1]; left += tile) {
      for (int64_t m = top; m < std::min(top + tile, x.size[0]); ++m) {
        for (int64_t n = left; n < std::min(left + tile, x.size[1]); ++n) y(n, m) = x(m, n);
      }
    }
  }
}

namespace {
// What BLAS is told of a matrix: whether it is transposed, and how far its rows or columns are apart.
template <class T>
struct Matrix {
  const T* data;
  int64_t leading;
  bool transposed;

  T operator()(int64_t row, int64_t column) const {
    return transposed ? data[column * leading + row] : data[row * leading + column];
  }
};

template <class T, class Work>
void with_matrix(View<const T, 2> x, Work work) {
  if (x.stride[1] == 1) return work(Matrix<T>{x.data, x.stride[0], false});
  if (x.stride[0] == 1) return work(Matrix<T>{x.data, x.stride[1], true});
  work([&](int64_t row, int64_t column) { return x(row, column); });
}
}  // namespace

template <class T>
void by_leading_dimension(View<const T, 2> x, View<const T, 2> y, View<T, 2> out) {
  with_matrix(x, [&](auto left) {
    with_matrix(y, [&](auto right) {
      for (int64_t m = 0; m < out.size[0]; ++m) {
        for (int64_t n = 0; n < out.size[1]; ++n) {
          T sum = 0;
          for (int64_t k = 0; k < x.size[1]; ++k) sum += left(m, k) * right(k, n);
          out(m, n) = sum;
        }
      }
    });
  });
}

template <class T>
void normed(View<const T, 2> x, const char* kind, Optional<double> floor, View<T, 1> out) {
  const std::string_view word = kind;
  if (word != "l1" && word != "l2" && word != "max") fail("kind is ", kind, "; it is l1, l2 or max");
  if (floor && !(*floor > 0)) fail("floor is ", *floor, "; it has to be above 0");
  if (word == "max" && x.size[1] == 0) fail("there is no largest of nothing");
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0, most = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const T size = std::abs(x(b, n));
      sum += word == "l1" ? size : size * size;
      if (size > most || size != size) most = size;
      if (most != most) break;
    }
    const T value = word == "max" ? most : word == "l1" ? sum : std::sqrt(sum);
    out(b) = floor && value < T(*floor) ? T(*floor) : value;
  }
}
