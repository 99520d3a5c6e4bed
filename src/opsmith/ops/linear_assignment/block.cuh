// What the threads of a block agree on: the first of their candidates, and the largest of their numbers.
#pragma once

#include <opsmith/lanes.h>

#include "../_gpu/first.cuh"

namespace opsmith::ops::linear_assignment {
namespace {

constexpr int most_threads = 1024;
constexpr int most_warps = most_threads / lanes;

template <class C>
using Candidate = gpu::Candidate<C, uint32_t>;

// Comes after all candidates.
template <class C>
constexpr Candidate<C> no_candidate{static_cast<C>(infinity), 0xffffffffu};

__device__ inline double largest_of_warp(double own) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const double other = shuffle_xor(own, distance);
    if (other > own) own = other;
  }
  return own;
}

// For all threads the same; numbers are not negative. `of_warps` may be written to again after the next barrier.
__device__ inline double largest_of_block(double own, double* of_warps) {
  const int lane = threadIdx.x % lanes, warps = blockDim.x / lanes;
  own = largest_of_warp(own);
  if (lane == 0) of_warps[threadIdx.x / lanes] = own;
  __syncthreads();
  return largest_of_warp(lane < warps ? of_warps[lane] : 0.0);
}

}  // namespace
}  // namespace opsmith::ops::linear_assignment
