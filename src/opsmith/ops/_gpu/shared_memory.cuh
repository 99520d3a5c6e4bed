// Shared memory: how much of it a block may have on the current GPU, and addresses in it.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::gpu {
namespace {

// The most that a block can ask for, in bytes; 0 where it is not known.
inline int most_shared_memory() {
  int device = 0, bytes = 0;
#if defined(__HIPCC__)
  const bool is_known = hipGetDevice(&device) == hipSuccess &&
                        hipDeviceGetAttribute(&bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, device) == hipSuccess;
#else
  const bool is_known = cudaGetDevice(&device) == cudaSuccess &&
                        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
#endif
  return is_known ? bytes : 0;
}

// Lets a kernel have this much of it at a launch. The launch reports what goes wrong.
template <class Kernel>
void allow_shared_memory(Kernel* kernel, int bytes) {
#if defined(__HIPCC__)
  (void)hipFuncSetAttribute(reinterpret_cast<const void*>(kernel), hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
#else
  (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
#endif
}

// An address in shared memory, as PTX takes it; 0 where there is no PTX.
__device__ inline uint32_t shared_address(const void* address) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__cvta_generic_to_shared(address));
#else
  return 0;
#endif
}

}  // namespace
}  // namespace opsmith::ops::gpu
