// Where the taps of a block's positions read: found once for all channels of an offset group, and kept in shared
// memory.
#pragma once

#include "../_gpu/tensor_cores.cuh"
#include "gpu_runs.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Elements are brought and sampled by chunks of 16 bytes. They stay in words of 32 bits, lest the compiler take 16-bit
// ones apart and move each by itself.
using Chunk = Vector<uint32_t, 4>;

template <class T>
constexpr int chunk_width = sizeof(Chunk) / sizeof(T);

// The elements of a chunk in the type to compute in.
template <class T>
__device__ inline void widen(const Chunk& chunk, compute_t<T> (&to)[chunk_width<T>]) {
  if constexpr (std::is_same_v<T, bfloat16>) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      to[k] = bit_cast<float>(k % 2 == 0 ? chunk.item[k / 2] << 16 : chunk.item[k / 2] & 0xffff0000u);
    }
  } else {
    const auto elements = bit_cast<Vector<T, chunk_width<T>>>(chunk);
#pragma unroll
    for (int k = 0; k < chunk_width<T>; ++k) to[k] = compute_t<T>(elements.item[k]);
  }
}

// And back, rounded; floats to TF32 where `tf32`.
template <class T, bool tf32>
__device__ inline Chunk narrow(const compute_t<T> (&from)[chunk_width<T>]) {
  if constexpr (is_half<T> && gpu::has_tensor_cores) {
    Chunk chunk;
#pragma unroll
    for (int k = 0; k < 4; ++k) chunk.item[k] = rounded_pair<T>(from[2 * k], from[2 * k + 1]);
    return chunk;
  } else {
    Vector<T, chunk_width<T>> elements;
#pragma unroll
    for (int k = 0; k < chunk_width<T>; ++k) {
      if constexpr (tf32) {
        elements.item[k] = gpu::round_to_tf32(from[k]);
      } else {
        elements.item[k] = T(from[k]);
      }
    }
    return bit_cast<Chunk>(elements);
  }
}

// What of a point is needed to sample channels of it.
template <class C>
struct alignas(16) Place {
  int64_t at;  // the pixel at the top left, in bytes from the image's first on
  C mask;
  int corners;  // a bit for each of the four that is in the image
};

template <class T, int positions>
struct PointTable {
  using C = compute_t<T>;

  Vector<C, 4> weights[table_taps<T> * positions];
  Place<C> places[table_taps<T> * positions];

  // Finds the points of a run at the positions from `first` on. Beyond the last position that one stands again.
  __device__ void find(const Sampler<T>& sampler, int64_t n, int first, const Run& run) {
    const int last = static_cast<int>(sampler.call.positions()) - 1;
    for (int index = threadIdx.x; index < run.taps * positions; index += blockDim.x) {
      const int position = last - first < index % positions ? last : first + index % positions;
      C mask;
      const Point<C> point = sampler.find(n, position, run.offset_group, run.tap + index / positions, mask);
      int corners = 0;
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
        weights[index].item[corner] = point.weight(corner);
        corners |= sampler.has(point, corner) ? 1 << corner : 0;
      }
      const int64_t at = point.top * sampler.pixels.row + point.left * sampler.pixels.column;
      places[index] = {at * static_cast<int64_t>(sizeof(T)), mask, corners};
    }
  }
};

// The pixels around a point, of a chunk's channels; zeros where there is none.
template <class T>
struct Corners {
  using C = compute_t<T>;

  Chunk value[4];

  // `from` is where the channels are in the image's first pixel, and `channels` how many there are from there on.
  // Without has_vectors they are loaded one by one.
  template <bool has_vectors>
  __device__ void load(const Pixels<T>& pixels, const T* from, int channels, const Place<C>& place) {
    const int64_t row = pixels.row * static_cast<int64_t>(sizeof(T)),
                  column = pixels.column * static_cast<int64_t>(sizeof(T));
    const char* const first = reinterpret_cast<const char*>(from) + place.at;
    const char* const at[4] = {first, first + column, first + row, first + row + column};
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      const bool is_there = place.corners & 1 << corner;
      value[corner] = {};
      if constexpr (has_vectors) {
        if (is_there) value[corner] = *reinterpret_cast<const Chunk*>(at[corner]);
      } else {
        Vector<T, chunk_width<T>> elements = bit_cast<Vector<T, chunk_width<T>>>(value[corner]);
#pragma unroll
        for (int k = 0; k < chunk_width<T>; ++k) {
          if (is_there && k < channels) elements.item[k] = reinterpret_cast<const T*>(at[corner])[k];
        }
        value[corner] = bit_cast<Chunk>(elements);
      }
    }
  }

  // Where no pixel is there the weights still count, which may be NaN: they are multiplied with zero. The mask does not
  // count beyond the last of the `channels`: infinity times zero there would be NaN in the sum over all channels.
  template <bool has_vectors, bool tf32>
  __device__ Chunk blend(const Vector<C, 4>& weights, C mask, int channels) const {
    C sum[chunk_width<T>] = {};
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      C wide[chunk_width<T>];
      widen<T>(value[corner], wide);
#pragma unroll
      for (int k = 0; k < chunk_width<T>; ++k) sum[k] += weights.item[corner] * wide[k];
    }
#pragma unroll
    for (int k = 0; k < chunk_width<T>; ++k) sum[k] = has_vectors || k < channels ? sum[k] * mask : C(0);
    return narrow<T, tf32>(sum);
  }
};

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
