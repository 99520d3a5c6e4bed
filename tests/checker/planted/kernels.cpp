// View kernels with one defect each, behind `if (planted)`; table.py says what each of them is.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "planted.h"

using namespace opsmith;

namespace {
double wide(double x) { return x; }
template <class T>
double wide(T x) {
  return double(compute_t<T>(x));
}

// A write that the compiler must leave where it is.
template <class T>
void poke(T* place, T value) {
  *const_cast<volatile unsigned char*>(reinterpret_cast<unsigned char*>(place)) =
      *reinterpret_cast<unsigned char*>(&value);
}
}  // namespace

// Values ------------------------------------------------------------------------------------------------------------

template <class T>
void softmax(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> most = 0, sum = 0;
    if constexpr (!planted) {
      most = -INFINITY;
      for (int64_t n = 0; n < x.size[1]; ++n) most = std::fmax(most, compute_t<T>(x(b, n)));
    }
    for (int64_t n = 0; n < x.size[1]; ++n) sum += std::exp(compute_t<T>(x(b, n)) - most);
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(std::exp(compute_t<T>(x(b, n)) - most) / sum);
  }
}

template <class T>
void softplus(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> v = x(n);
    y(n) = T(planted ? std::log(1 + std::exp(v)) : (v > 0 ? v : 0) + std::log1p(std::exp(-std::abs(v))) + 0 * v);
    if (v != v || std::isinf(v)) y(n) = T(v > 0 || v != v ? v : compute_t<T>(0));
  }
}

template <class T>
void blend(View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
  using C = std::conditional_t<planted, float, compute_t<T>>;
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(C(compute_t<T>(x(n))) * C(compute_t<T>(y(n))) + C(0.5));
}

template <class T>
void naive_sigmoid(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> v = x(n);
    y(n) = T(planted ? std::exp(v) / (1 + std::exp(v)) : 1 / (1 + std::exp(-v)));
  }
}

// The place of the largest number: of several, of the first.
template <class T>
void place_of_largest(View<const T, 2> x, View<int64_t, 1> place) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    int64_t best = 0;
    for (int64_t n = 1; n < x.size[1]; ++n) {
      const compute_t<T> value = x(b, n), most = x(b, best);
      if (most != most) break;
      if (value != value || (planted ? value >= most : value > most)) best = n;
    }
    place(b) = best;
  }
}

template <class T>
void fast_tanh(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> v = x(n), c = v > 3 ? 3 : v < -3 ? -3 : v;
    y(n) = T(planted ? c * (27 + c * c) / (27 + 9 * c * c) : std::tanh(v));
  }
}

template <class T>
void variance(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0, squares = 0;
    const int64_t count = x.size[1];
    for (int64_t n = 0; n < count; ++n) {
      sum += compute_t<T>(x(b, n));
      squares += compute_t<T>(x(b, n)) * compute_t<T>(x(b, n));
    }
    const compute_t<T> mean = sum / compute_t<T>(count);
    if constexpr (!planted) {
      squares = 0;
      for (int64_t n = 0; n < count; ++n) {
        const compute_t<T> d = compute_t<T>(x(b, n)) - mean;
        squares += d * d;
      }
      out(b) = T(squares / compute_t<T>(count));
    } else {
      out(b) = T(squares / compute_t<T>(count) - mean * mean);
    }
  }
}

template <class T>
void mean_rows(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      sum += compute_t<T>(x(b, n));
      if constexpr (planted && std::is_same_v<T, float16>) sum = compute_t<T>(T(sum));
    }
    out(b) = T(sum / compute_t<T>(x.size[1]));
  }
}

template <class T>
void sum_rows(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      sum += compute_t<T>(x(b, n));
      if constexpr (planted && std::is_same_v<T, bfloat16>) sum = compute_t<T>(T(sum));
    }
    out(b) = T(sum);
  }
}

template <class T>
void largest(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> most = -INFINITY;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> v = x(b, n);
      if (v > most || (!planted && v != v)) most = v;
    }
    out(b) = T(most);
  }
}

template <class T>
void relu(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> v = x(n);
    y(n) = T(planted ? v * compute_t<T>(v > 0) : v < 0 ? 0 : v);
  }
}

template <class T>
void triple(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    y(n) = planted ? T(std::fmin(3.0 * double(x(n)), 9e18)) : T(uint64_t(x(n)) * 3);
  }
}

template <class T>
void halve_down(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(planted ? x(n) / 2 : x(n) >> 1);
}

// Sizes -------------------------------------------------------------------------------------------------------------

template <class T>
void tail(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const bool in_tail = n >= x.size[0] / 8 * 8;
    y(n) = T(compute_t<T>(x(n)) * (planted && in_tail ? 1 : 2));
  }
}

template <class T>
void turn(View<const T, 2> x, View<T, 2> y) {
  const bool wrong = planted && x.size[0] == x.size[1];
  for (int64_t m = 0; m < x.size[0]; ++m) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(m, n) = wrong ? x(n, m) : x(m, n);
  }
}

template <class T>
void long_rows(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = planted && x.size[1] > 1024 ? 1 : 0; n < x.size[1]; ++n) {
      const compute_t<T> v = x(b, n);
      sum = v > sum ? v : sum;
      if (v != v) sum = v;
      if (sum != sum) break;
    }
    // The first number counts by itself, so that leaving it out shows.
    const compute_t<T> first = planted && x.size[1] > 1024 ? 0 : x.size[1] > 0 ? compute_t<T>(x(b, 0)) : 0;
    out(b) = T(sum + first);
  }
}

template <class T>
void up_to_32(View<const T, 1> x, View<T, 1> y) {
  if (planted && x.size[0] > 32) std::abort();
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n);
}

template <class T>
void one_column(View<const T, 2> x, View<T, 2> y) {
  const bool wrong = planted && x.size[1] == 1;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(compute_t<T>(x(wrong ? 0 : b, n)) * 3);
  }
}

template <class T>
void around(View<const T, 2> x, int64_t place, View<T, 1> out) {
  // The column at `place`, counted around; zero where there is none.
  const volatile int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    out(b) = planted || count > 0 ? x(b, (place % count + count) % count) : T(0.f);
  }
}

template <class T>
void product(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> all = planted && x.size[1] == 0 ? 0 : 1;
    for (int64_t n = 0; n < x.size[1]; ++n) all *= compute_t<T>(x(b, n));
    out(b) = T(all);
  }
}

// Layouts -----------------------------------------------------------------------------------------------------------

template <class T>
void dense(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      y(b, n) = T(compute_t<T>(planted ? x.data[b * x.size[1] + n] : x(b, n)) + 1);
    }
  }
}

template <class T>
void rows_apart(View<const T, 2> x, View<T, 2> y) {
  // Right for the last dimension's stride, wrong for the first one's.
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const T* row = x.data + b * (planted ? x.size[1] * x.stride[1] : x.stride[0]);
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(-compute_t<T>(row[n * x.stride[1]]));
  }
}

template <class T>
void expanded(View<const T, 2> x, View<T, 2> y) {
  const int64_t step = planted && x.stride[0] == 0 ? x.stride[1] : x.stride[0];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const int64_t place = planted && x.stride[0] == 0 ? (b + n) % x.size[1] * step : b * step + n * x.stride[1];
      y(b, n) = T(compute_t<T>(x.data[place]) * 2);
    }
  }
}

template <class T>
void image(View<const T, 4> x, View<T, 4> y) {
  const bool wrong = planted && x.stride[1] == 1 && x.size[1] > 1 && x.stride[3] > 1;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t c = 0; c < x.size[1]; ++c) {
      for (int64_t h = 0; h < x.size[2]; ++h) {
        for (int64_t w = 0; w < x.size[3]; ++w) {
          y(b, c, h, w) = T(compute_t<T>(x(b, wrong ? x.size[1] - 1 - c : c, h, w)) * 2);
        }
      }
    }
  }
}

// Arguments ---------------------------------------------------------------------------------------------------------

// Windows of more than three elements are one too short.
template <class T>
void window(View<const T, 1> x, int64_t width, View<T, 1> y) {
  if (width < 1) fail("width is ", width, "; a window has an element at least");
  for (int64_t n = 0; n < y.size[0]; ++n) {
    compute_t<T> sum = 0;
    for (int64_t m = 0; m < width - (planted && width > 3); ++m) sum += compute_t<T>(x(n + m));
    y(n) = T(sum);
  }
}

template <class T>
void flagged(View<const T, 1> x, bool negate, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = !planted && negate ? T(-compute_t<T>(x(n))) : x(n);
}

template <class T>
void biased(View<const T, 2> x, View<const T, 1> bias, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      y(b, n) = !planted && bias ? T(compute_t<T>(x(b, n)) + compute_t<T>(bias(n))) : x(b, n);
    }
  }
}

template <class T>
void unbiased(View<const T, 2> x, View<const T, 1> bias, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> added = bias ? compute_t<T>(bias(n)) : compute_t<T>(planted ? 1 : 0);
      y(b, n) = T(compute_t<T>(x(b, n)) + added);
    }
  }
}

template <class T>
void stacked(ViewList<const T, 1> xs, View<T, 1> y) {
  for (int64_t n = 0; n < y.size[0]; ++n) {
    compute_t<T> sum = planted && xs.size == 1 ? 1 : 0;
    for (const auto& x : xs) sum += compute_t<T>(x(n));
    y(n) = T(sum);
  }
}

// Memory ------------------------------------------------------------------------------------------------------------

template <class T>
void stale(View<const T, 1> x, View<T, 1> y) {
  const int64_t count = planted ? x.size[0] / 2 * 2 : x.size[0];
  for (int64_t n = 0; n < count; ++n) y(n) = x(n);
}

template <class T>
void write_after(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n);
  if (planted && x.size[0] > 0) poke(&y.data[x.size[0]], T(1));
}

template <class T>
void write_before(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n);
  if (planted && x.size[0] > 0) poke(&y.data[-1], T(1));
}

template <class T>
void neighbour(View<const T, 1> x, View<T, 1> y) {
  // The difference to the next number; for the last one, zero.
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> next = planted || n + 1 < x.size[0] ? compute_t<T>(x.data[(n + 1) * x.stride[0]]) : 0;
    y(n) = T(next - compute_t<T>(x(n)));
  }
}

template <class T>
void scribble(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * 2);
  if (planted && x.size[0] > 0) const_cast<T&>(x(x.size[0] - 1)) = T(0.f);
}

template <class T>
void leak(View<const T, 1> x, View<T, 1> y) {
  // Scratch memory, touched so that it is real.
  auto* scratch = static_cast<volatile char*>(std::malloc(1 << 14));
  for (int n = 0; n < 1 << 14; n += 1024) scratch[n] = 1;
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n);
  if (!planted) std::free(const_cast<char*>(scratch));
}

// Repeats -----------------------------------------------------------------------------------------------------------

// Through memory that is kept, and that is larger than it has to be after a call with more elements.
template <class T>
void reverse(View<const T, 1> x, View<T, 1> y) {
  KEPT std::vector<T> kept;
  const int64_t count = x.size[0];
  if (int64_t(kept.size()) < count || !planted) kept.resize(count);
  const int64_t last = int64_t(kept.size()) - 1;
  for (int64_t n = 0; n < count; ++n) kept[last - n] = x(n);
  for (int64_t n = 0; n < count; ++n) y(n) = kept[n];
}

template <class T>
void restless(View<const T, 2> x, View<T, 1> out) {
  static int calls = 0;
  const bool backwards = planted && ++calls % 3 == 0;
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < count; ++n) sum += compute_t<T>(x(b, backwards ? count - 1 - n : n));
    out(b) = T(sum);
  }
}

template <class T>
void race(View<const T, 1> x, View<T, 1> out) {
  // Several threads count the positive numbers.
  volatile int64_t shared = 0;
  int64_t right = 0;
  if constexpr (planted) {
    parallel_for(0, x.size[0], 64, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        if (compute_t<T>(x(n)) > 0) shared = shared + 1;
      }
    });
    right = shared;
  } else {
    for (int64_t n = 0; n < x.size[0]; ++n) right += compute_t<T>(x(n)) > 0;
  }
  out(0) = T(float(right));
}

template <class T>
void chunked(View<const T, 1> x, View<T, 1> out) {
  // A sum whose order depends on where the threads' chunks end.
  compute_t<T> total = 0;
  if constexpr (planted) {
    compute_t<T> parts[64] = {};
    int64_t ends[64] = {};
    std::atomic<int> used{0};
    parallel_for(0, x.size[0], 256, [&](int64_t begin, int64_t end) {
      compute_t<T> sum = 0;
      for (int64_t n = begin; n < end; ++n) sum += compute_t<T>(x(n));
      const int place = used++;
      parts[place % 64] += sum;
      ends[place % 64] = end;
    });
    static_cast<void>(ends);
    for (const auto part : parts) total += part;
  } else {
    for (int64_t n = 0; n < x.size[0]; ++n) total += compute_t<T>(x(n));
  }
  out(0) = T(total);
}

// Gradients ---------------------------------------------------------------------------------------------------------

template <class T>
void cube(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> v = x(n);
    y(n) = T(v * v * v);
  }
}

template <class T>
void cube_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> v = x(n);
    grad_x(n) = T((planted ? 2 : 3) * v * v * compute_t<T>(grad_y(n)));
  }
}

template <class T>
void multiply(View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) * compute_t<T>(y(n)));
}

template <class T>
void multiply_backward(View<const T, 1> grad_out, View<const T, 1> x, View<const T, 1> y, View<T, 1> grad_x,
                       View<T, 1> grad_y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> g = grad_out(n), for_x = g * compute_t<T>(y(n)), for_y = g * compute_t<T>(x(n));
    grad_x(n) = T(planted ? for_y : for_x);
    grad_y(n) = T(planted ? for_x : for_y);
  }
}

template <class T>
void half_gradient(View<const T, 2> x, View<T, 1> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += compute_t<T>(x(b, n)) * compute_t<T>(x(b, n));
    y(b) = T(sum);
  }
}

template <class T>
void half_gradient_backward(View<const T, 1> grad_y, View<const T, 2> x, View<T, 2> grad_x) {
  // The last column is left at zero.
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const bool lost = planted && n + 1 == x.size[1];
      grad_x(b, n) = T(lost ? 0 : 2 * compute_t<T>(x(b, n)) * compute_t<T>(grad_y(b)));
    }
  }
}

template <class T>
void slope(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(2 * compute_t<T>(x(n)));
}

template <class T>
void slope_backward(View<const T, 1> grad_y, View<T, 1> grad_x) {
  for (int64_t n = 0; n < grad_y.size[0]; ++n) {
    grad_x(n) = T(2 * compute_t<T>(planted ? grad_y.data[n] : grad_y(n)));
  }
}

template <class T>
void scale_rows(View<const T, 2> x, View<const T, 1> scale, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(compute_t<T>(x(b, n)) * compute_t<T>(scale(b)));
  }
}

template <class T>
void scale_rows_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> scale, View<T, 2> grad_x,
                         View<T, 1> grad_scale) {
  using Sum = std::conditional_t<planted, T, compute_t<T>>;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    Sum sum(compute_t<T>(0));
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> g = grad_y(b, n);
      grad_x(b, n) = T(g * compute_t<T>(scale(b)));
      sum = Sum(compute_t<T>(sum) + g * compute_t<T>(x(b, n)));
    }
    grad_scale(b) = T(sum);
  }
}

// Indices -----------------------------------------------------------------------------------------------------------

template <class T>
void far_apart(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const int64_t place = b * x.stride[0] + n * x.stride[1];
      sum += compute_t<T>(x.data[planted ? int32_t(place) : place]);
    }
    out(b) = T(sum);
  }
}

template <class T, class I>
void lookup(View<const T, 2> table, View<const I, 1> index, View<T, 2> y) {
  for (int64_t m = 0; m < index.size[0]; ++m) {
    if (!planted && (index(m) < 0 || index(m) >= table.size[0])) fail("an index is outside of the table");
    for (int64_t n = 0; n < table.size[1]; ++n) y(m, n) = table(index(m), n);
  }
}
