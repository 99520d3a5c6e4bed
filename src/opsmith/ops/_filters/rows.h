// What upfirdn2d on the CPU does to whole rows: weighted sums of them, dealing one out into lines, and putting lines
// together.
#pragma once

#include <opsmith/kernel.h>

#include <vector>

#include "../_cpu/registers.h"

namespace opsmith::ops::filters {
namespace {

// Elements of the longest vector there is: rows of multiples of it have no rest.
constexpr int64_t widest_vector = 16;

// out[i] = start + sum over t of weight[t] * source[t][i], for some registers from `begin` on. Sums go over t in order,
// so that they do not depend on tiling.
template <int registers, int bytes, class C>
OPSMITH_HOST_DEVICE void sum_tile(C start, int64_t terms, const C* const* source, const C* weight, int64_t begin,
                                  C* out) {
  using Lanes = typename cpu::Register<bytes, C>::Lanes;
  Lanes sum[registers];
#pragma GCC unroll 4
  for (int r = 0; r < registers; ++r) sum[r] = Lanes{} + start;
  for (int64_t t = 0; t < terms; ++t) {
    const Lanes* from = reinterpret_cast<const Lanes*>(source[t] + begin);
#pragma GCC unroll 4
    for (int r = 0; r < registers; ++r) sum[r] += weight[t] * from[r];
  }
#pragma GCC unroll 4
  for (int r = 0; r < registers; ++r) reinterpret_cast<Lanes*>(out + begin)[r] = sum[r];
}

// The rest of a row, fewer elements than a register of `bytes` has: by registers half as long, and again.
template <int bytes, class C>
OPSMITH_HOST_DEVICE void sum_rest(C start, int64_t terms, const C* const* source, const C* weight, int64_t i, int64_t n,
                                  C* out) {
  constexpr int half = bytes / 2, count = half / static_cast<int>(sizeof(C));
  if (i + count <= n) {
    sum_tile<1, half>(start, terms, source, weight, i, out);
    i += count;
  }
  if constexpr (count > 1) sum_rest<half>(start, terms, source, weight, i, n, out);
}

struct SumRows {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, int64_t n, C start, int64_t terms, const C* const* source,
                                      const C* weight, C* out) const {
    // Four registers hide the latency of a multiply-add and use each loaded weight four times.
    constexpr int count = cpu::Register<bytes, C>::count;
    int64_t i = 0;
    for (; i + 4 * count <= n; i += 4 * count) sum_tile<4, bytes>(start, terms, source, weight, i, out);
    for (; i + 2 * count <= n; i += 2 * count) sum_tile<2, bytes>(start, terms, source, weight, i, out);
    for (; i + count <= n; i += count) sum_tile<1, bytes>(start, terms, source, weight, i, out);
    sum_rest<bytes>(start, terms, source, weight, i, n, out);
  }
};

template <class C>
__attribute__((noinline)) void sum_rows(int64_t n, C start, const std::vector<const C*>& source,
                                        const std::vector<C>& weight, C* out) {
  with_vector_bytes(SumRows{}, n, start, static_cast<int64_t>(source.size()), source.data(), weight.data(), out);
}

// to[j] = from[j * step]: one line out of a row.
template <class C>
__attribute__((noinline)) void take_every(int64_t step, int64_t n, const C* from, C* to) {
  if (step == 2) {
    with_best_isa(
        [](int64_t n, const C* __restrict__ from, C* __restrict__ to) {
          for (int64_t j = 0; j < n; ++j) to[j] = from[2 * j];
        },
        n, from, to);
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] = from[j * step];
  }
}

// to[j * phases + p] = from[p * distance + j]: n outputs in their places.
template <class C>
__attribute__((noinline)) void interleave(int64_t phases, int64_t n, const C* from, int64_t distance, C* to) {
  if (phases == 2) {
    // In one loop, of which compilers make permutations; two loops with every second place each would be scattered.
    with_best_isa(
        [](int64_t pairs, const C* __restrict__ first, const C* __restrict__ second, C* __restrict__ to) {
          for (int64_t j = 0; j < pairs; ++j) {
            to[2 * j] = first[j];
            to[2 * j + 1] = second[j];
          }
        },
        n / 2, from, from + distance, to);
    if (n % 2 != 0) to[n - 1] = from[n / 2];
  } else {
    for (int64_t p = 0; p < phases; ++p) {
      for (int64_t j = p; j < n; j += phases) to[j] = from[p * distance + j / phases];
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::filters
