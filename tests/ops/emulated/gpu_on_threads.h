// Runs a GPU kernel on a CPU: each of a block's threads is one of the CPU's, and blocks run one after another.
//
// A kernel's header is included after this one. It may use barriers, dynamic shared memory, atomics on that, and what
// opsmith/lanes.h has. Include it for the arithmetic and the places of a kernel; only a GPU shows its timing, and races
// of a warp.
#pragma once

#include <opsmith/kernel.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
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
constexpr unsigned lanes = 32;

// Lanes put a value each in a warp's places, and read those of others.
struct Warp {
  std::barrier<> barrier{lanes};
  uint64_t places[lanes];
};

inline std::unique_ptr<std::barrier<>> block;
inline std::vector<std::unique_ptr<Warp>> warps;
inline std::atomic<int> any;

// Calls read(places) while the places have what all lanes gave.
template <class T, class Read>
auto exchange(T value, const Read& read) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  Warp& warp = *warps[threadIdx.x / lanes];
  std::memcpy(&warp.places[threadIdx.x % lanes], &value, sizeof(T));
  warp.barrier.arrive_and_wait();
  const auto result = read(warp.places);
  warp.barrier.arrive_and_wait();
  return result;
}

template <class T>
T from_lane(T value, unsigned lane) {
  return exchange(value, [lane](const uint64_t* places) {
    T found;
    std::memcpy(&found, &places[lane % lanes], sizeof(T));
    return found;
  });
}
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
T __shfl_sync(unsigned, T value, int lane) {
  return emulated::from_lane(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulated::from_lane(value, threadIdx.x ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  const auto lane = static_cast<int>(threadIdx.x % emulated::lanes);
  return emulated::from_lane(value, static_cast<unsigned>(lane < distance ? lane : lane - distance));
}
inline unsigned __ballot_sync(unsigned, bool holds) {
  return emulated::exchange(uint64_t{holds}, [](const uint64_t* places) {
    unsigned found = 0;
    for (unsigned lane = 0; lane < emulated::lanes; ++lane) found |= static_cast<unsigned>(places[lane]) << lane;
    return found;
  });
}
inline int __any_sync(unsigned mask, bool holds) { return __ballot_sync(mask, holds) != 0; }
inline void __syncwarp() { emulated::from_lane(0, 0); }

inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned atomicOr(unsigned* at, unsigned bits) { return std::atomic_ref<unsigned>(*at).fetch_or(bits); }

struct int2 {
  int x, y;
};
struct int4 {
  int x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

template <class T>
void __stcs(T* to, const T& value) {
  *to = value;
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

template <class T, int N>
Vector<T, N> rounded(const compute_t<T> (&values)[N]) {
  Vector<T, N> result;
  for (int k = 0; k < N; ++k) result.item[k] = static_cast<T>(values[k]);
  return result;
}

}  // namespace opsmith

// Of its two sides the one without a framework.
#define __CUDACC_RTC__
#include <opsmith/lanes.h>
#undef __CUDACC_RTC__

namespace emulated {

template <class Kernel>
void launch(unsigned blocks, unsigned threads, const Kernel& kernel) {
  blockDim.x = threads;
  gridDim.x = blocks;
  for (unsigned b = 0; b < blocks; ++b) {
    block = std::make_unique<std::barrier<>>(threads);
    warps.clear();
    for (unsigned warp = 0; warp * lanes < threads; ++warp) warps.push_back(std::make_unique<Warp>());
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
