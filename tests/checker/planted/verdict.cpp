// View kernels whose defects tempt a verdict into a wrong name; verdict_rows.py says what each of them is.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "planted.h"

using namespace opsmith;

namespace {
// A row of scratch memory in whole vectors: the caller's own, or one that is kept, whose padding is filled as it grows.
template <class C>
std::vector<C>& scratch_row(std::vector<C>& own, size_t size) {
  constexpr C padding = std::numeric_limits<C>::infinity();
  if constexpr (!planted) {
    own.assign(size, padding);
    return own;
  }
  thread_local std::vector<C> kept;
  if (kept.size() < size) kept.resize(size, padding);
  return kept;
}

template <class C>
C sum_of_weights(int64_t size, C sum) {
  if constexpr (!planted) return sum;
  thread_local std::unordered_map<int64_t, C> sums;
  return sums.emplace(size, sum).first->second;
}
}  // namespace

// What depends on earlier calls ---------------------------------------------------------------------------------------

template <class T>
void median(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  std::vector<C> own;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const int64_t count = x.size[1];
    if (count == 0) {
      out(b) = T(C(0));
      continue;
    }
    const int64_t padded = (count + 7) / 8 * 8;
    std::vector<C>& row = scratch_row(own, padded);
    bool is_nan = false;
    for (int64_t n = 0; n < count; ++n) {
      const C value = x(b, n);
      is_nan |= value != value;
      row[n] = value != value ? C(0) : value;
    }
    // The padding comes last, unless a longer row has left its numbers there.
    std::sort(row.begin(), row.begin() + padded);
    out(b) = T(is_nan ? std::numeric_limits<C>::quiet_NaN() : row[(count - 1) / 2]);
  }
}

template <class T>
void weighted_mean(View<const T, 2> x, View<const T, 1> w, View<T, 1> out) {
  using C = compute_t<T>;
  C sum = 0;
  for (int64_t n = 0; n < w.size[0]; ++n) sum += C(w(n));
  sum = sum_of_weights(w.size[0], sum);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C total = 0;
    for (int64_t n = 0; n < w.size[0]; ++n) total += C(x(b, n)) * C(w(n));
    out(b) = T(total / sum);
  }
}

template <class T>
void ring(View<const T, 1> x, View<T, 1> y) {
  // Blocks of memory take turns, and the last of them is an element short.
  static int64_t calls = 0;
  const int64_t rest = planted && ++calls % 16 == 0 ? 1 : 0;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const bool is_left = n >= x.size[0] - rest;
    y(n) = is_left ? x(n) : T(compute_t<T>(x(n)) + 1);
  }
}

// Two names for one defect --------------------------------------------------------------------------------------------

template <class T>
void prefix(View<const T, 1> x, View<T, 1> y) {
  // A chunk begins at zero, and not at what the one before it came to.
  parallel_for(0, x.size[0], planted ? 4096 : std::max<int64_t>(x.size[0], 1), [&](int64_t begin, int64_t end) {
    compute_t<T> sum = 0;
    for (int64_t n = begin; n < end; ++n) y(n) = T(sum += compute_t<T>(x(n)));
  });
}

template <class T>
void normalize(View<const T, 2> x, View<T, 2> y, View<T, 1> scale) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C squares = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) squares += C(x(b, n)) * C(x(b, n));
    const C mean = squares / C(std::max<int64_t>(x.size[1], 1));
    const C factor = 1 / std::sqrt(mean + C(1e-5));
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(C(x(b, n)) * factor);
    scale(b) = T(planted ? mean : factor);
  }
}

template <class T>
void normalize_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> scale, View<T, 2> grad_x) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const C factor = scale(b);
    C mean = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) mean += C(grad_y(b, n)) * C(x(b, n));
    mean /= C(std::max<int64_t>(x.size[1], 1));
    for (int64_t n = 0; n < x.size[1]; ++n) {
      grad_x(b, n) = T(factor * C(grad_y(b, n)) - factor * factor * factor * C(x(b, n)) * mean);
    }
  }
}

// What becomes another failure when it is made smaller ----------------------------------------------------------------

template <class T>
void lanes(View<const T, 1> x, View<T, 1> y) {
  // What a size leaves over is looked up in a table: beyond 32 in the wrong place, and from 5 to 7 there is nothing.
  const int64_t count = x.size[0];
  if (planted && count >= 5 && count <= 7) *static_cast<volatile int*>(nullptr) = 0;
  const int64_t rest = planted && count > 32 ? count % 8 : 0;
  for (int64_t n = 0; n < count; ++n) y(n) = T(compute_t<T>(x(n)) * (n >= count - rest ? 4 : 3));
}

template <class T>
void mean_square(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      sum += C(x(b, n)) * C(x(b, n));
      if constexpr (planted && sizeof(T) == 2) sum = C(T(sum));
    }
    out(b) = T(sum / C(std::max<int64_t>(x.size[1], 1)));
  }
}

// What hangs or crashes -----------------------------------------------------------------------------------------------

template <class T>
void exponent(View<const T, 1> x, View<int64_t, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    compute_t<T> value = std::abs(compute_t<T>(x(n)));
    int64_t doublings = 0;
    if (!planted && value == 0) value = 1;
    while (value < 1) {
      value *= 2;
      ++doublings;
    }
    out(n) = doublings;
  }
}

template <class T>
void root(View<const T, 1> x, View<T, 1> y) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C value = std::abs(C(x(n)));
    if (value == 0 || (!planted && !std::isfinite(value))) {
      y(n) = T(value);
      continue;
    }
    C found = 1, before = 0;
    // Newton's: with a NaN the difference is never small.
    while (!(std::abs(found - before) <= 2 * std::numeric_limits<C>::epsilon() * found)) {
      before = found;
      found = (found + value / found) / 2;
    }
    y(n) = T(found);
  }
}

template <class T>
void last_sum(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    if (!planted && x.size[1] == 0) {
      out(b) = T(sum);
      continue;
    }
    for (int64_t n = x.size[1] - 1;; --n) {
      sum += compute_t<T>(x(b, n));
      if (n == 0) break;
    }
    out(b) = T(sum);
  }
}
