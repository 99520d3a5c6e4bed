// Copies from global to shared memory that run while the thread goes on (cp.async, sm_80). Elsewhere the thread copies.
#pragma once

#include <opsmith/kernel.h>

#include "shared_memory.cuh"

namespace opsmith::ops::gpu {
namespace {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// Copies 16 bytes, both addresses multiples of 16, past the first-level cache, which has no use for them.
__device__ inline void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// The same, or sets them to zero and reads nothing.
__device__ inline void copy_async(void* to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
               : "memory");
}

// Waits for all copies of this thread.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Ends a group of copies, for wait_for_copy_groups().
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `left` groups are still running.
template <int left>
__device__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
#else
__device__ inline void copy_async(void* to, const void* from, bool is_there = true) {
  using Bytes = Vector<uint32_t, 4>;
  *static_cast<Bytes*>(to) = is_there ? *static_cast<const Bytes*>(from) : Bytes{};
}
__device__ inline void wait_for_copies() {}
__device__ inline void commit_copies() {}
template <int>
__device__ void wait_for_copy_groups() {}
#endif

}  // namespace
}  // namespace opsmith::ops::gpu
