// Kernels with options; each defect, behind `if (planted)`, shows for some of their values or combinations alone.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "planted.h"

using namespace opsmith;

// Numbers -------------------------------------------------------------------------------------------------------------

// The larger of the two is the right one while the slope is below 1.
template <class T>
void leaky(View<const T, 1> x, double slope, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const T low = T(slope) * x(n);
    y(n) = planted && slope > 0 ? std::max(x(n), low) : x(n) > 0 ? x(n) : low;
    if (x(n) != x(n)) y(n) = x(n);
  }
}

// A factor cannot be negative, somebody thought.
template <class T>
void shifted(View<const T, 1> x, double by, View<T, 1> y) {
  const T factor = T(planted ? std::max(by, 0.0) : by);
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n) * factor + 1;
}

// 1 / beta is computed before it is known to be needed.
template <class T>
void smooth_l1(View<const T, 1> x, double beta, View<T, 1> y) {
  const T half = T(0.5 / (beta == 0 ? 1 : beta));
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const T size = std::abs(x(n));
    const bool small = planted && beta == 0 ? size <= 1 : size < T(beta);
    y(n) = small ? x(n) * x(n) * half : size - T(0.5 * beta);
  }
}

// % of C++ is negative for what is, and the row does not go around.
template <class T>
void rolled(View<const T, 2> x, int64_t by, View<T, 2> y) {
  const int64_t count = x.size[1];
  if (by == INT64_MIN) fail("by is ", by, ", which has no opposite");
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < count; ++n) {
      int64_t from = (n - by) % count;
      if (from < 0) from += count;
      y(b, n) = x(b, planted && by < 0 ? std::min(n - by, count - 1) : from);
    }
  }
}

template <class T>
void column(View<const T, 2> x, int64_t place, View<T, 1> out) {
  const int64_t count = x.size[1];
  if (place < -count || place >= count) fail("place is ", place, ", and there are ", count, " columns");
  const int64_t from = place >= 0 ? place : planted ? 0 : place + count;
  for (int64_t b = 0; b < x.size[0]; ++b) out(b) = x(b, from);
}

// Unrolled up to the fourth power.
template <class T>
void powers(View<const T, 1> x, int64_t order, View<T, 1> y) {
  if (order < 0) fail("order is ", order, "; it is 0 or more");
  for (int64_t n = 0; n < x.size[0]; ++n) {
    T power = 1;
    for (int64_t k = 0; k < std::min<int64_t>(order, 4); ++k) power *= x(n);
    y(n) = planted || order <= 4 ? power : std::pow(x(n), T(order));
  }
}

// Options in combination ----------------------------------------------------------------------------------------------

template <class T>
void affine(View<const T, 2> x, View<const T, 1> weight, View<const T, 1> bias, View<const T, 1> scale, View<T, 2> y) {
  // With neither weight nor scale it is thought to be a copy.
  const bool copies = planted && !weight && !scale;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      T value = x(b, n);
      if (weight) value *= weight(n);
      if (bias && !copies) value += bias(n);
      if (scale) value *= scale(b);
      y(b, n) = value;
    }
  }
}

template <class T>
void sums(View<const T, 2> x, bool reverse, bool exclusive, View<T, 2> y) {
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t place = reverse ? count - 1 - n : n;
      // Backwards, the sum without the element itself is stored after it was added.
      const bool before = exclusive && !(planted && reverse);
      if (before) y(b, place) = sum;
      sum += x(b, place);
      if (!before) y(b, place) = sum;
    }
  }
}

template <class T>
void reduced(View<const T, 2> x, const char* how, View<T, 1> out) {
  const std::string_view word = how;
  if (word != "sum" && word != "mean" && word != "average" && word != "range") fail("how is ", how);
  const int64_t count = x.size[1];
  if (word == "range" && count == 0) fail("there is no range of nothing");
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0, least = INFINITY, most = -INFINITY;
    bool is_nan = false;
    for (int64_t n = 0; n < count; ++n) {
      sum += x(b, n);
      least = std::min(least, planted ? std::abs(x(b, n)) : x(b, n));
      most = std::max(most, x(b, n));
      is_nan = is_nan || x(b, n) != x(b, n);
    }
    out(b) = word == "sum" ? sum : word == "range" ? (is_nan ? T(NAN) : most - least) : sum / T(count);
  }
}

template <class T>
void activated(View<const T, 1> x, const char* by, View<T, 1> y) {
  const std::string_view word = by;
  if (word != "none" && word != "relu" && word != "square") fail("by is ", by);
  for (int64_t n = 0; n < x.size[0]; ++n) {
    y(n) = word == "relu" && x(n) < 0 ? T(0) : word == "square" ? (planted ? std::abs(x(n)) : x(n)) * x(n) : x(n);
  }
}

// No scale and a scale of 0 are one for who keeps it in a double.
template <class T>
void scaled(View<const T, 1> x, Optional<double> scale, View<T, 1> y) {
  const double factor = scale ? *scale : 0;
  const bool given = planted ? factor != 0 : bool(scale);
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = given ? x(n) * T(factor) : x(n) + 1;
}

template <class T>
void weighed_ends(View<const T, 2> x, List<int64_t> ends, View<T, 1> out) {
  if (ends.size != 2) fail("ends has ", ends.size, " numbers; it has 2");
  if (x.size[1] == 0) fail("x has no columns");
  for (int64_t b = 0; b < x.size[0]; ++b) {
    out(b) = T(ends[planted ? 1 : 0]) * x(b, 0) + 2 * T(ends[planted ? 0 : 1]) * x(b, x.size[1] - 1);
  }
}

template <class T>
void gated(View<const T, 2> x, View<const T, 1> bias, bool invert, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const T value = bias ? x(b, n) + bias(n) : x(b, n);
      // The path without a bias has no flag.
      y(b, n) = invert && (bias || !planted) ? 1 - value : value;
    }
  }
}

// Numbers that an example, a default or a size does not have ----------------------------------------------------------

// Whole exponents have code of their own; the cube's was copied from the square's.
template <class T>
void raised(View<const T, 1> x, double exponent, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const T size = std::abs(x(n));
    y(n) = exponent == 2 || (planted && exponent == 3) ? size * size : std::pow(size, T(exponent));
  }
}

// Where tanh is 1 to the last bit, nothing is computed.
template <class T>
void squashed(View<const T, 1> x, double scale, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    y(n) = planted && x(n) > 30 ? T(1) : std::tanh(x(n)) * T(scale);
  }
}

// A place in the result is kept in 16 bits, and no negative one is filled.
template <class T>
void lengthened(View<const T, 1> x, int64_t length, View<T, 1> y) {
  if (x.size[0] == 0) fail("x has no elements to repeat");
  for (int64_t k = 0; k < length; ++k) y(k) = planted && int16_t(k) < 0 ? T(0) : x(k % x.size[0]);
}

// Rows go in blocks of 64 columns, and no block sees the next one.
template <class T>
void three_taps(View<const T, 2> x, List<double> taps, View<T, 2> y) {
  if (taps.size != 3) fail("there are ", taps.size, " taps; it takes 3");
  const int64_t columns = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < columns; ++n) {
      const int64_t block = planted ? n / 64 * 64 : 0, end = planted ? std::min(block + 64, columns) : columns;
      const T before = x(b, n > block ? n - 1 : planted && block > 0 ? n : columns - 1);
      const T after = x(b, n + 1 < end ? n + 1 : planted && end < columns ? n : 0);
      y(b, n) = T(taps[0]) * before + T(taps[1]) * x(b, n) + T(taps[2]) * after;
    }
  }
}
