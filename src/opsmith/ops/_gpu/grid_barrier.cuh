// A barrier of all blocks of a grid that runs at once as a whole (sm_70).
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::gpu {
namespace {

// Between its halves a block may do what needs no other.
class GridBarrier {
 public:
  // `arrivals` is 0 when the kernel begins.
  explicit __device__ GridBarrier(unsigned* arrivals) : arrivals_(arrivals) {}

  __device__ void arrive() {
    __syncthreads();
    expected_ += gridDim.x;
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrivals_) : "memory");
  }

  // From here on what threads of any block have written before they arrived can be read, past the first-level cache.
  __device__ void wait() {
    if (threadIdx.x == 0) {
      unsigned found;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(arrivals_) : "memory");
      } while (static_cast<int>(found - expected_) < 0);  // also after the counter has wrapped around
    }
    __syncthreads();
  }

 private:
  unsigned* arrivals_;
  unsigned expected_ = 0;
};

}  // namespace
}  // namespace opsmith::ops::gpu
