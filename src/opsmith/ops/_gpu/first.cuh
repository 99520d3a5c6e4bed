// The first of the candidates that the threads of a warp or a block have, for all of them the same.
#pragma once

#include <opsmith/lanes.h>

namespace opsmith::ops::gpu {
namespace {

// Comes first by key, and of equal keys by rank.
template <class Key, class Rank>
struct Candidate {
  Key key;
  Rank rank;

  __device__ bool is_before(const Candidate& other) const {
    return key < other.key || (key == other.key && rank < other.rank);
  }
};

template <class Key, class Rank>
__device__ Candidate<Key, Rank> first_of_warp(Candidate<Key, Rank> own) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const Candidate<Key, Rank> other{shuffle_xor(own.key, distance), shuffle_xor(own.rank, distance)};
    if (other.is_before(own)) own = other;
  }
  return own;
}

// Of a block of `warps` whole warps; `none` comes after all. `of_warps` may be written to again after the next barrier.
template <class Key, class Rank>
__device__ Candidate<Key, Rank> first_of_block(Candidate<Key, Rank> own, Candidate<Key, Rank>* of_warps, int warps,
                                               Candidate<Key, Rank> none) {
  const int lane = threadIdx.x % lanes;
  own = first_of_warp(own);
  if (lane == 0) of_warps[threadIdx.x / lanes] = own;
  __syncthreads();
  return first_of_warp(lane < warps ? of_warps[lane] : none);
}

}  // namespace
}  // namespace opsmith::ops::gpu
