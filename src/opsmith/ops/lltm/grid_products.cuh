// How the blocks of a whole grid multiply in each step of a sequence that has more units than a cluster of blocks can
// hold the weight of.
//
// Every block has some units. Its share of the weight lies in the registers of its threads from the first step to the
// last, a warp having an eighth of the terms of all sums. The other factor, of which each block makes its units' part
// in a step, is read by all of them from the second-level cache. It lies there as the tensor cores take it: for every
// 16 rows and 16 terms, one after the other, the 16 bytes of each lane.
#pragma once

#include "../_gpu/grid_barrier.cuh"
#include "../_gpu/tensor_cores.cuh"

namespace opsmith::ops::lltm {

namespace {

constexpr int grid_warps = 8;
constexpr int grid_threads = 32 * grid_warps;
constexpr int most_grid_units = 1024;  // whose weight 128 blocks have room for
constexpr int most_grid_rows = 64;     // a thread completes two or four units of one row

// Shared memory for the sums of a block's warps, of 16 * row_tiles rows and 8 * column_tiles columns.
constexpr int grid_bytes(int row_tiles, int column_tiles) {
  return grid_warps * 16 * row_tiles * 8 * column_tiles * static_cast<int>(sizeof(float));
}

}  // namespace

}  // namespace opsmith::ops::lltm

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace opsmith::ops::lltm {

namespace {

// Two adjacent elements as they lie in a register.
template <class T>
__device__ uint32_t pair_of(T first, T second) {
  const T both[2] = {first, second};
  uint32_t bits;
  __builtin_memcpy(&bits, both, sizeof(bits));
  return bits;
}

// The place of two adjacent terms of a row in the other factor, in pairs. `depth` is the number of terms.
__device__ inline int place_of_pair(int row, int term, int depth) {
  const int lane = row % 8 * 4 + term % 8 / 2, part = row % 16 / 8 + term % 16 / 8 * 2;
  return ((row / 16 * (depth / 16) + term / 16) * 32 + lane) * 4 + part;
}

// 16 * row_tiles rows by 8 * column_tiles columns, of at most 16 * grid_warps * most_shares terms.
template <class T, int row_tiles, int column_tiles, int most_shares>
struct GridProduct {
  static constexpr int rows = 16 * row_tiles;

  uint32_t weight[most_shares][column_tiles][2];

  // at(term, column) is an element.
  template <class At>
  __device__ void load(int depth, const At& at) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < most_shares; ++n) {
      const int share = threadIdx.x / 32 + n * grid_warps;
      if (share >= depth / 16) break;
#pragma unroll
      for (int c = 0; c < column_tiles; ++c) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int term = share * 16 + half * 8 + 2 * (lane % 4), column = c * 8 + lane / 4;
          weight[n][c][half] = pair_of<T>(at(term, column), at(term + 1, column));
        }
      }
    }
  }

  // Leaves each warp's sums in `sums`, for all threads of the block.
  __device__ void multiply(const uint4* other, int depth, float* sums) const {
    constexpr int ahead = 4;  // loads of 16 rows and 16 terms on their way
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, shares = depth / 16;
    float sum[row_tiles][column_tiles][4] = {};
    uint4 left[ahead][row_tiles];
    const auto fetch = [&](int n) {
      const int share = warp + n * grid_warps;
      if (share >= shares) return;
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) left[n % ahead][m] = __ldcg(other + (m * shares + share) * 32 + lane);
    };
#pragma unroll
    for (int n = 0; n < ahead - 1; ++n) fetch(n);
#pragma unroll
    for (int n = 0; n < most_shares; ++n) {
      if (n + ahead - 1 < most_shares) fetch(n + ahead - 1);
      if (warp + n * grid_warps >= shares) break;
#pragma unroll
      for (int m = 0; m < row_tiles; ++m) {
        const uint4 bits = left[n % ahead][m];
        const uint32_t a[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int c = 0; c < column_tiles; ++c) gpu::multiply_add<T>(sum[m][c], a, weight[n][c][0], weight[n][c][1]);
      }
    }
#pragma unroll
    for (int m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (int c = 0; c < column_tiles; ++c) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float* const to = sums + place(warp, c, m * 16 + lane / 4 + 8 * half, lane % 4);
          *reinterpret_cast<float2*>(to) = make_float2(sum[m][c][2 * half], sum[m][c][2 * half + 1]);
        }
      }
    }
    __syncthreads();
  }

  // Adds the sums of two columns of a row, in the order of the warps.
  static __device__ void add_sums(float (&to)[2], const float* sums, int row, int column_tile, int pair) {
#pragma unroll
    for (int warp = 0; warp < grid_warps; ++warp) {
      const float2 part = *reinterpret_cast<const float2*>(sums + place(warp, column_tile, row, pair));
      to[0] += part.x;
      to[1] += part.y;
    }
  }

 private:
  static __device__ int place(int warp, int column_tile, int row, int pair) {
    return ((warp * column_tiles + column_tile) * rows + row) * 8 + 2 * pair;
  }
};

}  // namespace

}  // namespace opsmith::ops::lltm

#endif
