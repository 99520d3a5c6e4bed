// Correct view kernels whose roundings are others than their references': fewer, in another order, or undone.
#include <opsmith/kernel.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace opsmith;

namespace {
template <class T, class F>
void each(View<const T, 1> x, View<T, 1> y, F function) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(function(compute_t<T>(x(n))));
}

template <class C, class At>
C pairwise(int64_t begin, int64_t end, At at) {
  if (end - begin < 8) {
    C sum = 0;
    for (int64_t n = begin; n < end; ++n) sum += at(n);
    return sum;
  }
  const int64_t middle = begin + (end - begin) / 2;
  return pairwise<C>(begin, middle, at) + pairwise<C>(middle, end, at);
}
}  // namespace

// The largest number and the sum in one pass: the sum so far is scaled when a larger one comes.
template <class T>
void online_softmax(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C most = -INFINITY, sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n);
      if (v > most) {
        sum = sum * std::exp(most - v) + std::exp(v - v);  // NaN for inf, as everywhere
        most = v;
      } else if (v != most || v != -INFINITY) {
        sum += std::exp(v - most);
      }
    }
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(std::exp(C(x(b, n)) - most) / sum);
  }
}

template <class T>
void flash_attention(View<const T, 2> q, View<const T, 2> k, View<const T, 2> v, View<T, 2> out) {
  using C = compute_t<T>;
  const int64_t width = v.size[1];
  std::vector<C> weighted(width);
  for (int64_t m = 0; m < q.size[0]; ++m) {
    C most = -INFINITY, sum = 0;
    std::fill(weighted.begin(), weighted.end(), C(0));
    for (int64_t n = 0; n < k.size[0]; ++n) {
      C score = 0;
      for (int64_t i = 0; i < q.size[1]; ++i) score += C(q(m, i)) * C(k(n, i));
      C scale = 1, weight;
      if (score > most) {
        scale = std::exp(most - score);
        weight = std::exp(score - score);
        most = score;
      } else {
        weight = std::exp(score - most);
      }
      sum = sum * scale + weight;
      for (int64_t d = 0; d < width; ++d) weighted[d] = weighted[d] * scale + weight * C(v(n, d));
    }
    for (int64_t d = 0; d < width; ++d) out(m, d) = T(k.size[0] == 0 ? C(0) : weighted[d] / sum);
  }
}

template <class T>
void kahan_sum(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C sum = 0, rest = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n), next = sum + v;
      rest += std::abs(sum) >= std::abs(v) ? (sum - next) + v : (v - next) + sum;
      sum = next;
    }
    out(b) = T(std::isfinite(sum) ? sum + rest : sum);
  }
}

template <class T>
void pairwise_sum(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    out(b) = T(pairwise<C>(0, x.size[1], [&](int64_t n) { return C(x(b, n)); }));
  }
}

// The tail of 1 + erf has all its digits as erfc.
template <class T>
void gelu_of_erfc(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    return C(0.5) * v * std::erfc(-v * C(0.70710678118654752));
  });
}

template <class T>
void kahan_log1p(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    const C a = std::abs(v);
    const volatile C u = 1 + a;
    return u == 1 || std::isinf(u) ? a : std::log(u) * a / (u - 1);
  });
}

template <class T>
void tanh_of_expm1(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    const auto t = std::expm1(-2 * std::abs(v));
    return std::copysign(-t / (2 + t), v);
  });
}

// The variance of halves, merged (Chan, Golub and LeVeque).
template <class T>
void merged_variance(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C mean = 0, squares = 0;
    for (int64_t start = 0; start < count; start += 16) {
      const int64_t end = std::min(start + 16, count);
      C part = 0, of_part = 0;
      for (int64_t n = start; n < end; ++n) part += C(x(b, n));
      part /= C(end - start);
      for (int64_t n = start; n < end; ++n) of_part += (C(x(b, n)) - part) * (C(x(b, n)) - part);
      const C step = part - mean;
      mean += step * C(end - start) / C(end);
      squares += of_part + step * step * C(start) * C(end - start) / C(end);
    }
    out(b) = T(squares / C(count));
  }
}

// From the end, so that of equal numbers the first one stays.
template <class T>
void first_largest(View<const T, 2> x, View<int64_t, 1> place) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    int64_t best = std::max<int64_t>(x.size[1] - 1, 0);
    for (int64_t n = x.size[1] - 2; n >= 0; --n) {
      const C v = x(b, n), most = x(b, best);
      if (v != v || (v >= most && most == most)) best = n;
    }
    place(b) = best;
  }
}

template <class T>
void counts(View<const T, 1> x, double low, double high, View<int64_t, 1> count) {
  for (int64_t n = 0; n < 12; ++n) count(n) = 0;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const double v = double(compute_t<T>(x(n)));
    if (v >= low && v <= high)
      ++count(std::clamp<int64_t>(int64_t(std::floor((v - low) / ((high - low) / 12))), 0, 11));
  }
}

template <class T>
void softplus(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    return v != v ? v : std::max(v, C(0)) + std::log1p(std::exp(-std::abs(v)));  // PyTorch's is x above 20
  });
}

// Adding 1.5 * 2^52 leaves no digit behind the point, and rounds halves to even.
template <class T>
void magic_round(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) {
    using C = decltype(v);
    const C magic = sizeof(C) == 8 ? C(6755399441055744.0) : C(12582912.0f);
    if (!(std::abs(v) < magic / 4)) return v;
    const volatile C moved = v + magic;
    return std::copysign(C(moved - magic), v);
  });
}

// Hillis and Steele: in steps of 1, 2, 4, ...
template <class T>
void scanned_sum(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  std::vector<C> sums(x.size[1]);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) sums[n] = x(b, n);
    for (int64_t step = 1; step < x.size[1]; step *= 2) {
      for (int64_t n = x.size[1] - 1; n >= step; --n) sums[n] += sums[n - step];
    }
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(sums[n]);
  }
}

// The largest has the term 1; log1p of the others keeps the digits of what is beside it. NaN for inf, as everywhere.
template <class T>
void log_softmax(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C most = -INFINITY, beside = 0;
    int64_t place = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C v = x(b, n);
      if (v > most || v != v) most = v, place = n;
      if (v != v) break;
    }
    for (int64_t n = 0; n < x.size[1]; ++n) {
      if (n != place) beside += std::exp(C(x(b, n)) - most);
    }
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(C(x(b, n)) - most - std::log1p(beside) + (most - most));
  }
}

template <class T>
void slope_of_tanh(View<const T, 1> x, View<T, 1> y) {
  each(x, y, [](auto v) { return std::tanh(v); });
}

// 1 / cosh^2 has all digits where 1 - tanh^2 has none.
template <class T>
void slope_of_tanh_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C c = 1 / std::cosh(C(x(n)));
    grad_x(n) = T(C(grad_y(n)) * c * c);
  }
}
