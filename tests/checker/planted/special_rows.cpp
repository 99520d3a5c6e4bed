// View kernels that are right for NaN and infinities here and there, and wrong where they fill a row.
#include <cfloat>
#include <cmath>

#include "planted.h"

using namespace opsmith;

namespace {
// The largest number of a row, NaN if there is one.
template <class C, class At>
C largest(int64_t count, C from, At at) {
  C most = from;
  for (int64_t n = 0; n < count; ++n) {
    const C v = at(n);
    if (v > most || v != v) most = v;
    if (most != most) break;
  }
  return most;
}
}  // namespace

// A row without a number gives zeros, as masks of attention have it.
template <class T>
void masked_softmax(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C most = largest(x.size[1], C(-INFINITY), [&](int64_t n) { return C(x(b, n)); });
    if (planted && most == -INFINITY) {
      for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(C(0));
      continue;
    }
    C sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::exp(C(x(b, n)) - most);
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(std::exp(C(x(b, n)) - most) / sum);
  }
}

template <class T>
void log_of_sum(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C most = largest(x.size[1], C(-INFINITY), [&](int64_t n) { return C(x(b, n)); });
    // -inf - -inf is NaN.
    const C from = std::isinf(most) && !(planted && most < 0 && x.size[1] > 0) ? C(0) : most;
    C sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::exp(C(x(b, n)) - from);
    out(b) = T(std::log(sum) + from);
  }
}

// Starts with the smallest finite number.
template <class T>
void most(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  const C lowest = std::is_same_v<C, double> ? C(-DBL_MAX) : C(-FLT_MAX);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C from = planted && x.size[1] > 0 ? lowest : C(-INFINITY);
    out(b) = T(largest(x.size[1], from, [&](int64_t n) { return C(x(b, n)); }));
  }
}

// No number is larger than -inf.
template <class T>
void place_of_most(View<const T, 2> x, View<int64_t, 1> place) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C best = -INFINITY;
    int64_t found = planted && x.size[1] > 0 ? x.size[1] - 1 : 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n);
      if (v > best || v != v) best = v, found = n;
      if (v != v) break;
    }
    place(b) = found;
  }
}

// 0 * log(0) is NaN.
template <class T>
void entropy(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C most = largest(x.size[1], C(-INFINITY), [&](int64_t n) { return C(x(b, n)); });
    C sum = 0, all = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::exp(C(x(b, n)) - most);
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C p = std::exp(C(x(b, n)) - most) / sum, log_p = C(x(b, n)) - most - std::log(sum);
      const bool is_nothing = p == 0 && (!planted || log_p > -INFINITY);
      all -= is_nothing ? C(0) : p * log_p;
    }
    out(b) = T(all);
  }
}

// A row of equal numbers is divided by 0.
template <class T>
void stretched(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C high = largest(x.size[1], C(-INFINITY), [&](int64_t n) { return C(x(b, n)); });
    const C low = -largest(x.size[1], C(-INFINITY), [&](int64_t n) { return -C(x(b, n)); });
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const bool is_flat = high == low && !(planted && x.size[1] > 1);
      y(b, n) = T(is_flat ? C(0) : (C(x(b, n)) - low) / (high - low));
    }
  }
}

// A row without a number has the mean 0.
template <class T>
void mean_of_numbers(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C sum = 0;
    int64_t count = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n);
      if (v == v) sum += v, ++count;
    }
    out(b) = T(planted && count == 0 && x.size[1] > 0 ? C(0) : sum / C(count));
  }
}

template <class T>
void columns_most(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[1]; ++n) {
    const C from = planted && x.size[0] > 0 ? C(-1e30) : C(-INFINITY);
    out(n) = T(largest(x.size[0], from, [&](int64_t b) { return C(x(b, n)); }));
  }
}

template <class T>
void one_most(View<const T, 1> x, View<T, 1> out) {
  using C = compute_t<T>;
  const C most = largest(x.size[0], C(-INFINITY), [&](int64_t n) { return C(x(n)); });
  const C from = std::isinf(most) && !(planted && most < 0 && x.size[0] > 0) ? C(0) : most;
  C sum = 0;
  for (int64_t n = 0; n < x.size[0]; ++n) sum += std::exp(C(x(n)) - from);
  out(0) = T(std::log(sum) + from);
}
