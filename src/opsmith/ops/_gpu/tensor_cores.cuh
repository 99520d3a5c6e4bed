// Matrix products of a warp on tensor cores (mma, sm_80). Elsewhere has_tensor_cores is false, and the functions do
// nothing: call them below `if constexpr (has_tensor_cores)`.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

namespace opsmith::ops::gpu {
namespace {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
constexpr bool has_tensor_cores = true;

// Loads four matrices of 8 x 8 16-bit elements from shared memory (ldmatrix). Lane l gives the address of row l % 8 of
// matrix l / 8, and gets of each matrix the elements 2 * (l % 4) and the next of row l / 4; of its transpose where
// `transposed`. Not transposed, these are also matrices of 8 x 4 floats: the lane gets element l % 4 of row l / 4.
template <bool transposed = false>
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t from) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  }
}

// sum += a b for a of 16 rows and b of 8 columns of 32 bytes each. Lane l has of the sum the rows l / 4 and 8 more, and
// the columns 2 * (l % 4) and the next; of the factors the 4 bytes l % 4 and those 16 bytes further, of row l / 4 of a
// first and then of 8 rows more, and of column l / 4 of b. Floats count with ten bits of their fraction (TF32).
template <class T>
__device__ inline void multiply_add(float* sum, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, float>);
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

__device__ inline float round_to_tf32(float value) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
}
#else
constexpr bool has_tensor_cores = false;

template <bool transposed = false>
__device__ inline void load_matrices(uint32_t (&)[4], uint32_t) {}
template <class T>
__device__ inline void multiply_add(float*, const uint32_t (&)[4], uint32_t, uint32_t) {}
__device__ inline float round_to_tf32(float value) { return value; }
#endif

}  // namespace
}  // namespace opsmith::ops::gpu
