// What the 32 lanes of a warp tell each other, in CUDA's words and in HIP's, where a wave may have two such halves.
#pragma once

#include <opsmith/kernel.h>

namespace {

using namespace opsmith;

// What a lane has.
template <class C>
__device__ C value_of(C value, int lane) {
#if defined(__HIPCC__)
  return __shfl(value, lane, 32);
#else
  return __shfl_sync(0xffffffffu, value, lane);
#endif
}

// What the lane `distance` below has.
__device__ inline unsigned value_below(unsigned value, int distance) {
#if defined(__HIPCC__)
  return __shfl_up(value, distance, 32);
#else
  return __shfl_up_sync(0xffffffffu, value, distance);
#endif
}

__device__ inline int largest_of_lanes(int value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
  for (int distance = 16; distance > 0; distance /= 2) {
    const int other = value_of(value, (threadIdx.x % 32) ^ distance);
    if (other > value) value = other;
  }
  return value;
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
