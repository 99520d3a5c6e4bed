// Step 6: while a row's exponentials keep the processor busy, the next row comes in from memory.
#include <opsmith/block.h>

#include <type_traits>
#include <vector>

#include "rows.h"

namespace {

constexpr int64_t cache_line = 64;

// As exponentiate(), and asks for the n elements at `next`. Nothing waits for them, and no address is too far.
template <class C>
C exponentiate_ahead(int64_t n, C largest, C* line, const C* next) {
  C sum = 0;
  with_best_isa(
      [](int64_t n, C largest, C* __restrict__ line, const C* next, C* __restrict__ sum) {
        C lane[lanes] = {};
        const int64_t whole = n / lanes * lanes;
        for (int64_t i = 0; i < whole; i += lanes) {
          for (int64_t j = 0; j < lanes; j += cache_line / sizeof(C)) __builtin_prefetch(next + i + j);
          for (int64_t j = 0; j < lanes; ++j) {
            line[i + j] = math::exp(line[i + j] - largest);
            lane[j] += line[i + j];
          }
        }
        for (int64_t i = whole; i < n; ++i) {
          line[i] = math::exp(line[i] - largest);
          lane[i - whole] += line[i];
        }
        for (int64_t j = 0; j < lanes; ++j) *sum += lane[j];
      },
      n, largest, line, next, &sum);
  return sum;
}

}  // namespace

template <class T>
void ahead(View<const T, 2> scores, View<const T, 1> bias, double scale, View<T, 2> weights) {
  using C = compute_t<T>;
  const int64_t n = scores.size[1];
  std::vector<C> added(n);
  load_block(bias.data, bias.stride[0], n, added.data());
  const int64_t grain = 1 + 16384 / (n + 1);  // rows for some 10 us
  parallel_for(0, scores.size[0], grain, [&](int64_t begin, int64_t end) {
    std::vector<C> dense(n), line(n);
    for (int64_t row = begin; row < end; ++row) {
      const C *from = dense.data(), *next = dense.data();
      C* to = dense.data();
      if constexpr (std::is_same_v<T, C>) {
        if (scores.stride[1] == 1) {
          from = &scores(row, 0);
          if (row + 1 < end) next = &scores(row + 1, 0);
        }
        if (weights.stride[1] == 1) to = &weights(row, 0);
      }
      if (from == dense.data()) load_block(&scores(row, 0), scores.stride[1], n, dense.data());
      const C largest = fill_logits(n, from, added.data(), C(scale), line.data());
      const C sum = exponentiate_ahead(n, largest, line.data(), next);
      multiply(n, 1 / sum, line.data(), to);
      if (to == dense.data()) store_block(dense.data(), n, &weights(row, 0), weights.stride[1]);
    }
  });
}
