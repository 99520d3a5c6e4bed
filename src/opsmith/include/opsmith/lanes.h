// What 32 adjacent threads tell each other without shared memory, under one name each in CUDA and HIP.
#pragma once

#include "gpu.h"

namespace opsmith {

// Lanes that work together: a warp. A wavefront of AMD's MI GPUs has 64, which are two such groups.
constexpr int lanes = 32;

// What a lane has. All 32 call it, as they do each of these.
template <class C>
__device__ C shuffle(C value, int lane) {
#if defined(__HIPCC__)
  return __shfl(value, lane, lanes);
#else
  return __shfl_sync(0xffffffffu, value, lane);
#endif
}

// What the lane has whose number differs in the bits of `mask`.
template <class C>
__device__ C shuffle_xor(C value, int mask) {
#if defined(__HIPCC__)
  return __shfl_xor(value, mask, lanes);
#else
  return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

// What the lane `distance` below has; the lowest ones get their own.
template <class C>
__device__ C shuffle_up(C value, int distance) {
#if defined(__HIPCC__)
  return __shfl_up(value, distance, lanes);
#else
  return __shfl_up_sync(0xffffffffu, value, distance);
#endif
}

// In which lanes this holds: a bit each.
__device__ inline uint32_t lanes_where(bool holds) {
#if defined(__HIPCC__)
  return static_cast<uint32_t>(__ballot(holds) >> (__lane_id() & 32));
#else
  return __ballot_sync(0xffffffffu, holds);
#endif
}

}  // namespace opsmith
