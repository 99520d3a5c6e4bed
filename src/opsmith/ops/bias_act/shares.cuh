// How the work of bias_act's kernels is shared out.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/reduce.h>

namespace opsmith::ops::bias_act {
namespace {

constexpr int threads = GridSum::threads, thread_bits = 7;
static_assert(threads == 1 << thread_bits);
// Blocks enough for some rounds on any GPU: with more elements than that each thread takes more of them.
constexpr int64_t blocks_wanted = 4096;
// Sums of blocks for one channel, before each block sums up more.
constexpr int64_t sums_wanted = 2048;

template <class A, class B>
OPSMITH_HOST_DEVICE int64_t smaller(A a, B b) {
  return a < b ? a : b;
}

// How many of so many vectors next to each other are of one thread, from its first on.
OPSMITH_HOST_DEVICE int tiles_in(int64_t vectors) { return static_cast<int>(divide_up(vectors, threads)); }

// How many of n vectors a thread takes, of 1 to `most`, when there are to be so many blocks.
inline int64_t vectors_each(int64_t n, int64_t blocks, int64_t most) {
  const int64_t each = n / (threads * blocks);
  return each < 1 ? 1 : smaller(each, most);
}

// The threads of a block next to each other in a row, a power of two, and the rows that they begin in.
struct Lanes {
  int bits;

  Lanes(int64_t columns, int most_bits) : bits(0) {
    while (bits < most_bits && (1 << bits) < columns) ++bits;
  }
  OPSMITH_HOST_DEVICE int across() const { return 1 << bits; }
  OPSMITH_HOST_DEVICE int lines() const { return threads >> bits; }
  OPSMITH_HOST_DEVICE int lane(int thread) const { return thread & (across() - 1); }
  OPSMITH_HOST_DEVICE int line(int thread) const { return thread >> bits; }
  // How many of so many rows are of one thread, from its first on.
  OPSMITH_HOST_DEVICE int lines_in(int64_t rows) const {
    return static_cast<int>((rows + lines() - 1) >> (thread_bits - bits));
  }
};

// A grid of x blocks, y times z. CUDA allows so many of these; a kernel goes through the rest in a loop.
inline dim3 grid_of(int64_t x, int64_t y, int64_t z = 1) {
  constexpr int64_t most = 65535;
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(smaller(y, most)),
              static_cast<unsigned>(smaller(z, most)));
}

}  // namespace
}  // namespace opsmith::ops::bias_act
