// View kernels that keep or change what is not theirs, behind `if (planted)`; state_rows.py says what each of them
// does.
#include <sched.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "planted.h"

using namespace opsmith;

namespace {

template <class T>
void sum_rows_into(View<const T, 2> x, std::vector<T>& sums) {
  sums.resize(x.size[0]);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += compute_t<T>(x(b, n));
    sums[b] = T(sum);
  }
}

// Where a tensor lies and how, without what it holds.
template <class T>
struct Place {
  const T* data = nullptr;
  int64_t numbers[4] = {};

  explicit Place(View<const T, 2> x) : data(x.data), numbers{x.size[0], x.size[1], x.stride[0], x.stride[1]} {}
  Place() = default;
  bool operator==(const Place& other) const {
    return data == other.data && std::equal(numbers, numbers + 4, other.numbers);
  }
};

template <class T>
void copy_to(const std::vector<T>& sums, View<T, 1> y) {
  for (int64_t b = 0; b < y.size[0]; ++b) y(b) = sums[b];
}

// Some elements of x, in an order of memory, added up.
template <class T>
double sampled_sum(View<const T, 2> x, int64_t first, int64_t step, int64_t most) {
  double sum = 0;
  const int64_t count = x.numel();
  for (int64_t n = first, taken = 0; n < count && taken < most; n += step, ++taken) {
    sum += double(compute_t<T>(x(n / x.size[1], n % x.size[1]))) * double(taken + 1);
  }
  return sum;
}

}  // namespace

// Results that are kept ----------------------------------------------------------------------------------------------

template <class T>
void by_pointer(View<const T, 2> x, View<T, 1> y) {
  KEPT std::vector<T> kept;
  KEPT Place<T> place;
  if (!planted || !(place == Place<T>(x))) {
    sum_rows_into(x, kept);
    place = Place<T>(x);
  }
  copy_to(kept, y);
}

template <class T>
void by_prefix(View<const T, 2> x, View<T, 1> y) {
  KEPT std::vector<T> kept;
  KEPT Place<T> place;
  KEPT double mark = 0;
  const double first = sampled_sum(x, 0, 1, 4);
  if (!planted || !(place == Place<T>(x)) || mark != first) {
    sum_rows_into(x, kept);
    place = Place<T>(x);
    mark = first;
  }
  copy_to(kept, y);
}

template <class T>
void by_sample(View<const T, 2> x, View<T, 1> y) {
  KEPT std::vector<T> kept;
  KEPT Place<T> place;
  KEPT double mark = 0;
  const double sample = sampled_sum(x, 0, std::max<int64_t>(1, (x.numel() - 1) / 2), 3);  // first, middle and last
  if (!planted || !(place == Place<T>(x)) || mark != sample) {
    sum_rows_into(x, kept);
    place = Place<T>(x);
    mark = sample;
  }
  copy_to(kept, y);
}

// A weight that is packed once, as if it never changed.
template <class T>
void packed_weight(View<const T, 2> x, View<const T, 2> w, View<T, 2> y) {
  using C = compute_t<T>;
  KEPT std::vector<C> packed;
  KEPT Place<T> place;
  const int64_t inner = w.size[0], columns = w.size[1];
  if (!planted || !(place == Place<T>(w))) {
    packed.resize(inner * columns);
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t o = 0; o < columns; ++o) packed[o * inner + i] = C(w(i, o));
    }
    place = Place<T>(w);
  }
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t o = 0; o < columns; ++o) {
      C sum = 0;
      for (int64_t i = 0; i < inner; ++i) sum += C(x(b, i)) * packed[o * inner + i];
      y(b, o) = T(sum);
    }
  }
}

// The processor ------------------------------------------------------------------------------------------------------

namespace {

void flush_denormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

}  // namespace

template <class T>
void flushes(View<const T, 1> x, View<T, 1> y) {
  if (planted) flush_denormals();
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * 3);
}

template <class T>
void flushes_workers(View<const T, 1> x, View<T, 1> y) {
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
#endif
  parallel_for(0, x.size[0], 1024, [&](int64_t begin, int64_t end) {
    if (planted) flush_denormals();
    for (int64_t n = begin; n < end; ++n) y(n) = T(compute_t<T>(x(n)) * 5);
  });
#if defined(__x86_64__)
  _mm_setcsr(before);  // of the calling thread alone
#endif
}

template <class T>
void rounds(View<const T, 1> x, View<T, 1> y) {
  if (planted) std::fesetround(FE_DOWNWARD);
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> value = x(n);
    y(n) = T(planted ? std::nearbyint(value) : std::floor(value));
  }
}

template <class T>
void pins(View<const T, 1> x, View<T, 1> y) {
  if (planted) {
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(sched_getcpu(), &first);
    sched_setaffinity(0, sizeof first, &first);
  }
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) - 2);
}

// One tensor as two arguments ----------------------------------------------------------------------------------------

template <class T>
void same_twice(View<const T, 2> x, View<const T, 2> y, View<T, 2> out) {
  const bool is_one = planted && x.data == y.data;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      // Two different tensors are mixed; one alone needs no mixing, as if the weights added up to one.
      out(b, n) = is_one ? x(b, n) : T(compute_t<T>(x(b, n)) + compute_t<T>(0.5) * compute_t<T>(y(b, n)));
    }
  }
}

template <class T>
void gram(View<const T, 2> x, View<const T, 2> y, View<T, 2> out) {
  using C = compute_t<T>;
  // Of one tensor with itself, half of the products are enough; the rows' own are forgotten.
  const bool is_one = planted && x.data == y.data && x.size[0] == y.size[0];
  for (int64_t m = 0; m < x.size[0]; ++m) {
    for (int64_t n = 0; n < y.size[0]; ++n) {
      if (is_one && n == m) out(m, n) = T(C(0));
      if (is_one && n <= m) continue;
      C sum = 0;
      for (int64_t d = 0; d < x.size[1]; ++d) sum += C(x(m, d)) * C(y(n, d));
      out(m, n) = T(sum);
      if (is_one) out(n, m) = T(sum);
    }
  }
}

// Inputs that are changed for a while --------------------------------------------------------------------------------

template <class T>
void restores(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  std::vector<T> saved(x.size[1]);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    C most = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) {
      saved[n] = x(b, n);
      most = std::max(most, std::abs(C(saved[n])));
    }
    // Works in place, and puts the row back.
    for (int64_t n = 0; planted && n < x.size[1]; ++n) {
      *const_cast<volatile unsigned char*>(reinterpret_cast<const unsigned char*>(&x(b, n))) = 0;
    }
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(C(saved[n]) * C(0.5));
    for (int64_t n = 0; planted && n < x.size[1]; ++n) const_cast<T&>(x(b, n)) = saved[n];
  }
}

template <class T>
void sentinel(View<const T, 1> x, View<int64_t, 1> place) {
  const int64_t count = x.size[0];
  int64_t n = 0;
  if (planted && count > 0) {
    // A negative number at the end, so that the loop needs no other end.
    T& last = const_cast<T&>(x(count - 1));
    const T saved = last;
    last = T(-1.f);
    while (!(compute_t<T>(x(n)) < 0)) ++n;
    last = saved;
    if (n == count - 1 && !(compute_t<T>(saved) < 0)) n = count;
  } else {
    while (n < count && !(compute_t<T>(x(n)) < 0)) ++n;
  }
  place(0) = n;
}

// Several threads of the caller's ------------------------------------------------------------------------------------

template <class T>
void static_scratch(View<const T, 1> x, View<T, 1> y) {
  KEPT std::vector<T> scratch;
  const int64_t count = x.size[0];
  if (int64_t(scratch.size()) < count) scratch.resize(std::max<int64_t>(count, 1 << 17));
  for (int64_t n = 0; n < count; ++n) scratch[count - 1 - n] = x(n);
  for (int64_t n = 0; n < count; ++n) y(n) = scratch[n];
}

// Powers of a base, in a table that serves until another base comes.
template <class T>
void static_table(View<const T, 1> x, double base, View<T, 1> y) {
  constexpr int64_t kTable = 4096;
  KEPT double table[kTable], base_of_table = NAN;
  if (base_of_table != base) {
    base_of_table = base;
    for (int64_t k = 0; k < kTable; ++k) table[k] = std::cos(base * double(k));
  }
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * compute_t<T>(table[n % kTable]));
}

template <class T>
void static_sum(View<const T, 2> x, View<T, 1> y) {
  KEPT volatile compute_t<T> sum = 0;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum = sum + compute_t<T>(x(b, n));
    y(b) = T(sum);
  }
}
