// What the 32 lanes of a warp tell each other besides opsmith/lanes.h, in CUDA's words and in HIP's.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

namespace {

using namespace opsmith;

// Whether this holds in a lane of the warp.
__device__ inline bool any_lane(bool holds) {
#if defined(__HIPCC__)
  return __any(holds);
#else
  return __any_sync(0xffffffffu, holds);
#endif
}

// The same pointer, which all lanes have, as something that is kept: else nvcc 13.0 works it out again wherever it is
// used, in a loop from the strides.
template <class T>
__device__ const T* keep(const T* pointer) {
#if defined(__HIPCC__) || !defined(__CUDA_ARCH__)
  return pointer;
#else
  const auto address = static_cast<unsigned long long>(__cvta_generic_to_global(pointer));
  return static_cast<const T*>(__cvta_global_to_generic(shuffle(address, 0)));
#endif
}

// Waits for the other lanes, and sees what they have written to shared memory.
__device__ inline void meet_lanes() {
#if defined(__HIPCC__)
  __builtin_amdgcn_wave_barrier();
  __threadfence_block();
#else
  __syncwarp();
#endif
}

}  // namespace
