// Thread-block clusters: the shared memory of other blocks, and a barrier of all threads of a cluster. For kernels
// whose body is there from sm_90 on; older GPUs' code must not call them.
#pragma once

#include "shared_memory.cuh"

namespace opsmith::ops::gpu {
namespace {

// The address of the same variable in the shared memory of another block of the cluster.
__device__ inline uint32_t in_block(uint32_t address, int block) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}

// Stores 4 bytes at such an address.
__device__ inline void store_to_block(uint32_t there, uint32_t bits) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(bits) : "memory");
}

// What a block's threads stored before they arrive can be read, wherever it was stored in the cluster, by the threads
// that have waited. The code between the two runs while other blocks are still on their way.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

}  // namespace
}  // namespace opsmith::ops::gpu
