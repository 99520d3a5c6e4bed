// Runs a GPU kernel on a CPU: each of a block's threads is one of the CPU's, and blocks run one after another.
//
// A kernel's header is included after this one. It may use barriers and dynamic shared memory, not what a warp does
// together. Include it for the arithmetic and the places of a kernel; only a GPU shows its timing and its races.
#pragma once

#include <opsmith/kernel.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

struct Dim3 {
  unsigned x = 0, y = 0, z = 0;
};
inline thread_local Dim3 threadIdx, blockIdx;
inline Dim3 blockDim, gridDim;

namespace emulated {
inline std::unique_ptr<std::barrier<>> block;
inline std::atomic<int> any;
}  // namespace emulated

inline void __syncthreads() { emulated::block->arrive_and_wait(); }

inline int __syncthreads_or(int predicate) {
  if (threadIdx.x == 0) emulated::any = 0;
  __syncthreads();
  if (predicate != 0) emulated::any = 1;
  __syncthreads();
  const int result = emulated::any;
  __syncthreads();
  return result;
}

template <class T>
T __ldg(const T* from) {
  return *from;
}

using std::max;
using std::min;

namespace opsmith {

template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T item[N];
};

}  // namespace opsmith

namespace emulated {

template <class Kernel>
void launch(unsigned blocks, unsigned threads, const Kernel& kernel) {
  blockDim.x = threads;
  gridDim.x = blocks;
  for (unsigned b = 0; b < blocks; ++b) {
    block = std::make_unique<std::barrier<>>(threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&kernel, b, t] {
        blockIdx.x = b;
        threadIdx.x = t;
        kernel();
      });
    }
    for (std::thread& thread : all) thread.join();
  }
}

}  // namespace emulated
