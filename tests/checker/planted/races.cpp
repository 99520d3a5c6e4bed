// View kernels whose threads get in each other's way, behind `if (planted)`; races_rows.py says what each of them does.
#include <algorithm>
#include <cmath>
#include <vector>

#include "planted.h"

using namespace opsmith;

namespace {

// Calls f for chunks of [0, count): by several threads where the defect is planted.
template <class F>
void in_chunks(int64_t count, int64_t grain, F&& f) {
  if (planted) {
    parallel_for(0, count, grain, f);
  } else {
    f(int64_t{0}, count);
  }
}

}  // namespace

template <class T>
void scatter_add(View<const T, 2> table, View<const int64_t, 1> index, View<const T, 2> x, View<T, 2> y) {
  for (int64_t m = 0; m < index.size[0]; ++m) {
    if (index(m) < 0 || index(m) >= table.size[0]) fail("index ", index(m), " is outside of the table");
  }
  const int64_t columns = table.size[1];
  std::vector<compute_t<T>> sums(table.size[0] * columns);
  for (int64_t v = 0; v < table.size[0]; ++v) {
    for (int64_t n = 0; n < columns; ++n) sums[v * columns + n] = table(v, n);
  }
  in_chunks(index.size[0], 256, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      for (int64_t n = 0; n < columns; ++n) sums[index(m) * columns + n] += compute_t<T>(x(m, n));
    }
  });
  for (int64_t v = 0; v < table.size[0]; ++v) {
    for (int64_t n = 0; n < columns; ++n) y(v, n) = T(sums[v * columns + n]);
  }
}

// How many numbers are negative, zero and positive.
template <class T>
void signs(View<const T, 1> x, View<int64_t, 1> counts) {
  counts(0) = counts(1) = counts(2) = 0;
  in_chunks(x.size[0], 512, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const compute_t<T> value = x(n);
      if (value == value) ++counts((value > 0) - (value < 0) + 1);
    }
  });
}

// The positive numbers in front, and zeros behind them.
template <class T>
void compact(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < y.size[0]; ++n) y(n) = T(0.f);
  int64_t used = 0;
  auto* shared = static_cast<volatile int64_t*>(&used);
  in_chunks(x.size[0], 1024, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      if (compute_t<T>(x(n)) > 0) {
        const int64_t place = *shared;
        *shared = place + 1;
        y(place) = x(n);
      }
    }
  });
}

namespace {

constexpr int64_t kTable = 1 << 15;

double entry(int64_t k) { return std::log1p(double(k)) / 8; }

double lazy_table[kTable];
volatile bool is_ready = false;

const double* built_table() {
  static const std::vector<double> table = [] {
    std::vector<double> made(kTable);
    for (int64_t k = 0; k < kTable; ++k) made[k] = entry(k);
    return made;
  }();
  return table.data();
}

// A table that the first call makes; the mark that it is there comes too early.
const double* first_table() {
  if (!is_ready) {
    is_ready = true;
    for (int64_t k = 0; k < kTable; ++k) lazy_table[k] = entry(k);
  }
  return lazy_table;
}

}  // namespace

template <class T>
void first_call(View<const T, 1> x, View<T, 1> y) {
  parallel_for(0, x.size[0], 512, [&](int64_t begin, int64_t end) {
    const double* table = planted ? first_table() : built_table();
    for (int64_t n = begin; n < end; ++n) y(n) = T(compute_t<T>(x(n)) * compute_t<T>(table[n % kTable]));
  });
}

template <class T>
void shared_scratch(View<const T, 2> x, View<T, 2> y) {
  using C = compute_t<T>;
  const int64_t columns = x.size[1];
  // Meant for each thread; but all of them have this one.
  std::vector<C> shared(columns);
  parallel_for(0, x.size[0], 16, [&](int64_t begin, int64_t end) {
    std::vector<C> own(planted ? 0 : columns);
    C* scratch = planted ? shared.data() : own.data();
    for (int64_t b = begin; b < end; ++b) {
      C most = 0;
      for (int64_t n = 0; n < columns; ++n) {
        scratch[n] = std::abs(C(x(b, n)));
        if (scratch[n] > most) most = scratch[n];
      }
      for (int64_t n = 0; n < columns; ++n) y(b, n) = T(scratch[n] + 1);
    }
  });
}

// Running sums by blocks: those of the blocks before are read while other threads still make them.
template <class T>
void no_wait(View<const T, 1> x, View<T, 1> y) {
  using C = compute_t<T>;
  constexpr int64_t block = 512;
  const int64_t count = x.size[0], blocks = (count + block - 1) / block;
  std::vector<C> sums(blocks, C(0)), before(blocks, C(0));
  const auto sum_blocks = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t n = b * block; n < std::min(count, (b + 1) * block); ++n) sums[b] += C(x(n));
    }
  };
  const auto write_blocks = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      C sum = 0;
      for (int64_t k = 0; k < b; ++k) sum += static_cast<volatile C&>(sums[k]);
      for (int64_t n = b * block; n < std::min(count, (b + 1) * block); ++n) y(n) = T(sum += C(x(n)));
    }
  };
  if (planted) {
    parallel_for(0, blocks, 4, [&](int64_t begin, int64_t end) {
      sum_blocks(begin, end);
      write_blocks(begin, end);
    });
  } else {
    parallel_for(0, blocks, 4, sum_blocks);
    parallel_for(0, blocks, 4, write_blocks);
  }
}

template <class T>
void column_sums(View<const T, 2> x, View<T, 1> y) {
  std::vector<compute_t<T>> sums(y.size[0]);
  in_chunks(x.size[0], 64, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t n = 0; n < x.size[1]; ++n) sums[n] += compute_t<T>(x(b, n));
    }
  });
  for (int64_t n = 0; n < y.size[0]; ++n) y(n) = T(sums[n]);
}
