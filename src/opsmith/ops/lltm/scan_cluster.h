// The instructions that the kernels of a whole sequence are made of and that CUDA C++ has no plain functions for:
// thread-block clusters, matrix products of a warp. For nvcc and GPUs of compute capability 9.0 on.
#pragma once

#include <opsmith/kernel.h>

#include <cstdint>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace lltm {

// The place of a variable in shared memory, as instructions take it.
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// The same place in the shared memory of another block of the cluster.
__device__ inline uint32_t in_block(uint32_t address, int block) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}

__device__ inline void store_to_block(uint32_t there, uint32_t bits) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(bits) : "memory");
}

// What a block's threads stored before they arrive can be read, wherever it was stored in the cluster, by the threads
// that have waited. The code between the two runs while other blocks are still on their way.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Starts a copy from global to shared memory, both at multiples of 16 bytes, or fills with 0 and reads nothing.
__device__ inline void copy_16_bytes(uint32_t to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
               "r"(is_there ? 16 : 0)
               : "memory");
}

// Waits for the copies that this thread has started.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four matrices of 8x8 16-bit elements from shared memory. Lane l gives the address of row l % 8 of matrix l / 8, and
// gets of each matrix the elements 2 * (l % 4) and the next of row l / 4; of its transpose with `transposed`.
template <bool transposed = false>
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// sum += a b for a of 16x16 and b of 16x8. Lane l has the rows l / 4 and 8 more of a and of the sum, the column l / 4
// of b, and of the sum the columns 2 * (l % 4) and the next: sum[0], sum[1] in the first row, sum[2], sum[3] in the
// other.
template <class T>
__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ inline void multiply_add<opsmith::float16>(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                                      uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void multiply_add<opsmith::bfloat16>(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                                       uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace lltm

#endif
