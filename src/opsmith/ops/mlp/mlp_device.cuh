// What the two kernels of a small perceptron share.
//
// PyTorch starts three kernels for a forward and about ten for a backward, 1.5 us each at the least. What a small
// perceptron has to compute takes less than one of them; its time is that of a few loads one after the other, and of
// the instructions around them. So there is one thread for every few products, and little code.
#pragma once

#include <opsmith/divide.h>

#include "mlp_gpu.h"

namespace opsmith::ops::mlp {

constexpr int fewest_threads = 128;  // of a block

template <class C>
__device__ C* shared_memory() {
  extern __shared__ __align__(16) char bytes[];
  return reinterpret_cast<C*>(bytes);
}

// A division by a number that the host knows, in one multiplication. Right for n * divisor < 2^32.
struct Divisor {
  unsigned value;
  unsigned magic;

  Divisor() = default;
  explicit Divisor(int64_t value)
      : value(static_cast<unsigned>(value)),
        magic(value > 1 ? static_cast<unsigned>(((uint64_t{1} << 32) + value - 1) / value) : 0) {}

  __device__ unsigned quotient(unsigned n) const { return value > 1 ? __umulhi(n, magic) : n; }
};

inline int64_t at_least_1(int64_t value) { return value < 1 ? 1 : value; }

}  // namespace opsmith::ops::mlp
