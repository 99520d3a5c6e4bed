// What 32 adjacent threads exchange without shared memory, under one name each in CUDA and HIP.
#pragma once

#if defined(__CUDACC_RTC__)  // without a host side
#include "types.h"
#else
#include "gpu.h"
#endif

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

// Whether this holds in a lane of the warp or wavefront.
__device__ inline bool any_lane(bool holds) {
#if defined(__HIPCC__)
  return __any(holds);
#else
  return __any_sync(0xffffffffu, holds);
#endif
}

// Waits for the other lanes; what they wrote to shared memory before is visible afterwards.
__device__ inline void sync_lanes() {
#if defined(__HIPCC__)
  __builtin_amdgcn_wave_barrier();
  __threadfence_block();
#else
  __syncwarp();
#endif
}

// The sums of `count` values, each over 2 * mask adjacent lanes; `count` is a power of two up to that. A lane returns
// the sum of value lane / (2 * mask / count), lanes counted within those; `value` is overwritten. In each step a lane
// gives half of its values to another and keeps the rest, so 16 sums over 32 lanes take 16 shuffles and not 80.
template <int count, int mask = lanes / 2, class C, int size>
__device__ C sum_over_lanes(C (&value)[size], int lane) {
  static_assert(count > 0 && count <= 2 * mask && (count & (count - 1)) == 0, "a power of two up to the lanes");
  if constexpr (count > 1) {
    const bool upper = (lane & mask) != 0;
#pragma unroll
    for (int k = 0; k < count / 2; ++k) {
      const C kept = upper ? value[count / 2 + k] : value[k];
      const C given = upper ? value[k] : value[count / 2 + k];
      value[k] = kept + shuffle_xor(given, mask);
    }
  } else {
    value[0] += shuffle_xor(value[0], mask);
  }
  if constexpr (mask > 1) return sum_over_lanes<(count > 1 ? count / 2 : 1), mask / 2>(value, lane);
  return value[0];
}

}  // namespace opsmith
