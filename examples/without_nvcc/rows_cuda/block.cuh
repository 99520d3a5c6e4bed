#pragma once

// What a function of two values makes of those of all threads of a block, each of which gets it. THREADS is a multiple
// of 32.
template <int THREADS, class C, class Function>
__device__ C over_block(C value, Function function) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value = function(value, __shfl_xor_sync(0xffffffffu, value, mask));
  if constexpr (THREADS > 32) {
    __shared__ C parts[THREADS / 32];
    __syncthreads();  // what an earlier call has left is read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) value = function(value, parts[warp]);
  }
  return value;
}
