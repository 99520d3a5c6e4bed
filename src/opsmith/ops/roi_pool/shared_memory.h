// How much shared memory a block may have on the current GPU, for kernels that want more than every GPU has.
#pragma once

#include <opsmith/kernel.h>

namespace {

using namespace opsmith;

// In bytes; 0 where it is not known.
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

// Lets a kernel have so much of it at a launch. What goes wrong, the launch reports.
template <class Kernel>
void allow_shared_memory(Kernel* kernel, int bytes) {
#if defined(__HIPCC__)
  (void)hipFuncSetAttribute(reinterpret_cast<const void*>(kernel), hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
#else
  (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
#endif
}

}  // namespace
