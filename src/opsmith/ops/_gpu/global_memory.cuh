// Accesses to global memory that nvcc does not make by itself.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

namespace opsmith::ops::gpu {
namespace {

// Returns a pointer that is the same in all lanes, and keeps it in a register: else nvcc 13.0 computes it again from
// the strides wherever it is used, in each round of a loop.
template <class T>
__device__ const T* keep_pointer(const T* pointer) {
#if defined(__HIPCC__) || !defined(__CUDA_ARCH__)
  return pointer;
#else
  const auto address = static_cast<unsigned long long>(__cvta_generic_to_global(pointer));
  return static_cast<const T*>(__cvta_global_to_generic(shuffle(address, 0)));
#endif
}

// Stores 16 bytes as one, which nvcc does not do where they are put together from elements of 16 bits.
__device__ inline void store_16_bytes(void* to, const Vector<uint32_t, 4>& from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(from.item[0]),
               "r"(from.item[1]), "r"(from.item[2]), "r"(from.item[3])
               : "memory");
#else
  *static_cast<Vector<uint32_t, 4>*>(to) = from;
#endif
}

}  // namespace
}  // namespace opsmith::ops::gpu
