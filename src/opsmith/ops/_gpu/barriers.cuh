// Barriers in shared memory that count arrivals (mbarrier, sm_80), and barriers of some threads of a block. Elsewhere
// Barrier does nothing, and code that relies on it must not be called.
#pragma once

#include <opsmith/kernel.h>

#include "shared_memory.cuh"

namespace opsmith::ops::gpu {
namespace {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// How many lanes arrive for a warp: one, because each arrival takes time. compute-sanitizer's racecheck follows threads
// and not warps; `opsmith check --sanitize racecheck` defines this, and all of them arrive.
#if defined(OPSMITH_RACECHECK)
constexpr int arriving_lanes = 32;
#else
constexpr int arriving_lanes = 1;
#endif

// A barrier in shared memory, at which some threads arrive, and for which others wait. A phase of it ends when
// `arrivals` of them have arrived; phases are waited for by their number, from 0 on, and none while the one after the
// next is on.
struct Barrier {
  uint64_t state;

  // By one thread, and seen by the others after __syncthreads().
  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // All lanes of a warp are here; these are `arriving_lanes` arrivals.
  __device__ void warp_arrives() {
    __syncwarp();
    if (threadIdx.x % 32 < arriving_lanes) arrive();
  }
  __device__ void wait(int phase) {
    while (!has_ended(phase % 2)) {
#if __CUDA_ARCH__ < 900
      __nanosleep(20);  // in place of asking again, which takes turns from those who are waited for
#endif
    }
  }

 private:
  __device__ bool has_ended(int parity) {
    uint32_t ended;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
#if __CUDA_ARCH__ >= 900
        "mbarrier.try_wait.parity.shared.b64 ended, [%1], %2;\n"  // the thread sleeps for a while
#else
        "mbarrier.test_wait.parity.shared.b64 ended, [%1], %2;\n"
#endif
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(ended)
        : "r"(shared_address(this)), "r"(parity)
        : "memory");
    return ended != 0;
  }
};

// Waits for `threads` of a block, whole warps, where the others have ended, do not come, or meet at another `barrier`,
// from 1 to 15.
template <int threads, int barrier = 1>
__device__ inline void meet_threads() {
  asm volatile("bar.sync %1, %0;" ::"n"(threads), "n"(barrier) : "memory");
}

// The same, and tells all of them whether this holds for any.
template <int threads, int barrier = 1>
__device__ inline bool meet_and_ask(bool holds) {
  uint32_t any;
  asm volatile(
      "{\n"
      ".reg .pred own, any;\n"
      "setp.ne.u32 own, %1, 0;\n"
      "bar.red.or.pred any, %3, %2, own;\n"
      "selp.u32 %0, 1, 0, any;\n"
      "}"
      : "=r"(any)
      : "r"(static_cast<uint32_t>(holds)), "n"(threads), "n"(barrier)
      : "memory");
  return any != 0;
}
#else
constexpr int arriving_lanes = 1;
struct Barrier {
  uint64_t state;

  __device__ void init(int) {}
  __device__ void arrive() {}
  __device__ void warp_arrives() {}
  __device__ void wait(int) {}
};
template <int threads, int barrier = 1>
__device__ inline void meet_threads() {
  __syncthreads();
}
template <int threads, int barrier = 1>
__device__ inline bool meet_and_ask(bool holds) {
  return __syncthreads_or(holds);
}
#endif

}  // namespace
}  // namespace opsmith::ops::gpu
