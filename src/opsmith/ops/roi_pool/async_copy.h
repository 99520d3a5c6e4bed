// Copies from memory to shared memory that go on while a thread does something else, where the GPU has them (sm_80).
#pragma once

#include <opsmith/kernel.h>

namespace {

// 4, 8 or 16 bytes, aligned to their number.
template <int bytes>
__device__ void copy_async(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {  // past the first-level cache, which has no use for them
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(bytes) : "memory");
  }
#endif
}

// Waits for those of this thread.
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace
