// Correct view kernels of many kinds, written as people write them: sums in order, libm's functions, strides by hand.
#include <opsmith/kernel.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace opsmith;

template <class T>
void layer_norm(View<const T, 2> x, View<const T, 1> weight, View<const T, 1> bias, double eps, View<T, 2> y) {
  using C = compute_t<T>;
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C mean = 0, squares = 0;
    for (int64_t n = 0; n < count; ++n) mean += C(x(b, n));
    mean /= C(count);
    for (int64_t n = 0; n < count; ++n) squares += (C(x(b, n)) - mean) * (C(x(b, n)) - mean);
    const C scale = 1 / std::sqrt(squares / C(count) + C(eps));
    for (int64_t n = 0; n < count; ++n) {
      C value = (C(x(b, n)) - mean) * scale;
      if (weight) value *= C(weight(n));
      if (bias) value += C(bias(n));
      y(b, n) = T(value);
    }
  }
}

template <class T>
void rms_norm(View<const T, 2> x, View<const T, 1> weight, double eps, View<T, 2> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C squares = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) squares += C(x(b, n)) * C(x(b, n));
    const C scale = 1 / std::sqrt(squares / C(x.size[1]) + C(eps));
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(C(x(b, n)) * scale * C(weight(n)));
  }
}

template <class T>
void log_sum_exp(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C most = -INFINITY, sum = 0;
    bool is_nan = false;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      most = std::max(most, C(x(b, n)));
      is_nan |= std::isnan(C(x(b, n)));
    }
    if (!is_nan && std::isinf(most)) {
      out(b) = T(most);
      continue;
    }
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::exp(C(x(b, n)) - most);
    out(b) = T(is_nan ? C(NAN) : most + std::log(sum));
  }
}

template <class T>
void running_sum(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(sum += compute_t<T>(x(b, n)));
  }
}

template <class T>
void arg_max(View<const T, 2> x, View<int64_t, 1> index) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    int64_t best = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> value = x(b, n), most = x(b, best);
      if (value > most || (value != value && most == most)) best = n;
    }
    index(b) = best;
  }
}

template <class T>
void convolve(View<const T, 4> x, View<const T, 4> w, View<T, 4> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < y.size[0]; ++b)
    for (int64_t o = 0; o < y.size[1]; ++o)
      for (int64_t h = 0; h < y.size[2]; ++h)
        for (int64_t v = 0; v < y.size[3]; ++v) {
          C sum = 0;
          for (int64_t c = 0; c < x.size[1]; ++c)
            for (int64_t i = 0; i < w.size[2]; ++i)
              for (int64_t j = 0; j < w.size[3]; ++j) {
                sum += C(x(b, c, h + i, v + j)) * C(w(o, c, i, j));
              }
          y(b, o, h, v) = T(sum);
        }
}

template <class T, class I>
void embed(View<const T, 2> table, View<const I, 1> index, View<T, 2> out) {
  for (int64_t m = 0; m < index.size[0]; ++m) {
    if (index(m) < 0 || index(m) >= table.size[0]) fail("index ", int64_t(index(m)), " is outside of the table");
    for (int64_t n = 0; n < table.size[1]; ++n) out(m, n) = table(index(m), n);
  }
}

template <class T>
void add_into(View<T, 2> x, View<const T, 2> y, double alpha) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      x(b, n) = T(compute_t<T>(x(b, n)) + compute_t<T>(alpha) * compute_t<T>(y(b, n)));
    }
  }
}

template <class T>
void bits(View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T((x(n) & y(n)) ^ (x(n) >> 1));
}

template <class T>
void weighted(ViewList<const T, 2> xs, View<const T, 1> weight, bool halve, View<T, 2> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < out.size[0]; ++b) {
    for (int64_t n = 0; n < out.size[1]; ++n) {
      C sum = 0;
      for (const auto& x : xs) sum += C(x(b, n));
      if (weight) sum *= C(weight(n));
      out(b, n) = T(halve ? sum / 2 : sum);
    }
  }
}

template <class T>
void clamp(View<const T, 1> x, double low, double high, View<T, 1> y) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C value = x(n);
    // A low that is above high gives high, as torch.clamp does.
    const C above = value < C(low) ? C(low) : value;
    y(n) = T(above > C(high) ? C(high) : above);
  }
}

template <class T>
void sort_rows(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  std::vector<C> row(x.size[1]);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) row[n] = C(x(b, n));
    std::sort(row.begin(), row.end(), [](C one, C other) { return one < other || (other != other && one == one); });
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(row[n]);
  }
}

template <class T>
void variance(View<const T, 2> x, View<T, 1> out) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    // Welford's.
    C mean = 0, squares = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const C value = x(b, n), before = value - mean;
      mean += before / C(n + 1);
      squares += before * (value - mean);
    }
    out(b) = T(squares / C(x.size[1]));
  }
}

template <class T>
void pool(View<const T, 4> x, View<T, 4> y) {
  using C = compute_t<T>;
  for (int64_t b = 0; b < y.size[0]; ++b)
    for (int64_t c = 0; c < y.size[1]; ++c)
      for (int64_t h = 0; h < y.size[2]; ++h)
        for (int64_t w = 0; w < y.size[3]; ++w) {
          const C sum = C(x(b, c, 2 * h, 2 * w)) + C(x(b, c, 2 * h, 2 * w + 1)) + C(x(b, c, 2 * h + 1, 2 * w)) +
                        C(x(b, c, 2 * h + 1, 2 * w + 1));
          y(b, c, h, w) = T(sum / 4);
        }
}

template <class T>
void gelu(View<const T, 1> x, View<T, 1> y) {
  using C = compute_t<T>;
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const C value = x(n);
    y(n) = T(C(0.5) * value * (1 + std::erf(value * C(0.70710678118654752))));
  }
}
