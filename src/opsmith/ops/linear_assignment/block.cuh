// What the threads of a block agree on: the first of their candidates, and the largest of their numbers.
#pragma once

#include <opsmith/lanes.h>

namespace opsmith::ops::linear_assignment {
namespace {

constexpr int most_threads = 1024;
constexpr int most_warps = most_threads / lanes;

// Comes first by value, and of equal values by rank.
template <class C>
struct Candidate {
  C value;
  uint32_t rank;

  __device__ static Candidate none() { return {static_cast<C>(infinity), 0xffffffffu}; }
  __device__ bool is_before(const Candidate& other) const {
    return value < other.value || (value == other.value && rank < other.rank);
  }
};

template <class C>
__device__ Candidate<C> first_of_warp(Candidate<C> own) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const Candidate<C> other{shuffle_xor(own.value, distance), shuffle_xor(own.rank, distance)};
    if (other.is_before(own)) own = other;
  }
  return own;
}

// For all threads the same. `of_warps` may be written to again after the next barrier.
__device__ inline Candidate<double> first_of_block(Candidate<double> own, Candidate<double>* of_warps) {
  const int lane = threadIdx.x % lanes, warps = blockDim.x / lanes;
  own = first_of_warp(own);
  if (lane == 0) of_warps[threadIdx.x / lanes] = own;
  __syncthreads();
  return first_of_warp(lane < warps ? of_warps[lane] : Candidate<double>::none());
}

__device__ inline double largest_of_warp(double own) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const double other = shuffle_xor(own, distance);
    if (other > own) own = other;
  }
  return own;
}

// Likewise, of numbers that are not negative.
__device__ inline double largest_of_block(double own, double* of_warps) {
  const int lane = threadIdx.x % lanes, warps = blockDim.x / lanes;
  own = largest_of_warp(own);
  if (lane == 0) of_warps[threadIdx.x / lanes] = own;
  __syncthreads();
  return largest_of_warp(lane < warps ? of_warps[lane] : 0.0);
}

}  // namespace
}  // namespace opsmith::ops::linear_assignment
