// Lists of several lengths in one array: each is given its room once its length is known.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::gpu {
namespace {

// Where the room for a thread's `count` elements begins. To be called by all `threads` threads of a block, which have a
// barrier before the next call; blocks take theirs in any order, from `used` on, and add to it.
template <int threads>
__device__ int allot(int count, int* used) {
  __shared__ int sums[threads], first;
  int sum = count;
  for (int apart = 1; apart < threads; apart *= 2) {
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= apart) sum += sums[threadIdx.x - apart];
    __syncthreads();
  }
  if (threadIdx.x == threads - 1) first = atomicAdd(used, sum);
  __syncthreads();
  return first + sum - count;
}

}  // namespace
}  // namespace opsmith::ops::gpu
