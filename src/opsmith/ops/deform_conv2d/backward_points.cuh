// From the gradients of the samples to those of offsets and masks, on a GPU, and to the samples.
#pragma once

#include <opsmith/lanes.h>

#include "backward_products.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Sums four numbers over the lanes: each lane keeps half of what it has and gives the other away, until it has one.
// Lane l gets the sum of value[l / 8]. As sum_over_lanes of lanes.h, of which nvcc 13.0 makes other code here.
template <class C>
__device__ C sum_of_four(const C (&value)[4]) {
  const int lane = threadIdx.x % lanes;
  const bool second = lane & 16, odd = lane & 8;
  const C low = (second ? value[2] : value[0]) + shuffle_xor(second ? value[0] : value[2], 16);
  const C high = (second ? value[3] : value[1]) + shuffle_xor(second ? value[1] : value[3], 16);
  C sum = (odd ? high : low) + shuffle_xor(odd ? low : high, 8);
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  return sum;
}

// The first `count` channels of a lane, which has as many as 16 bytes have. Without vectors they come one by one.
template <bool has_vectors, class T>
__device__ Chunk load_channels(const T* from, int count) {
  if constexpr (has_vectors) {
    return count > 0 ? *reinterpret_cast<const Chunk*>(from) : Chunk{};
  } else {
    Vector<T, chunk_width<T>> values{};
    for (int k = 0; k < chunk_width<T>; ++k) {
      if (k < count) values.item[k] = from[k];
    }
    return bit_cast<Chunk>(values);
  }
}

template <bool has_vectors, class T>
__device__ void store_channels(const Chunk& chunk, T* to, int count) {
  if constexpr (has_vectors) {
    if (count > 0) *reinterpret_cast<Chunk*>(to) = chunk;
  } else {
    const auto values = bit_cast<Vector<T, chunk_width<T>>>(chunk);
    for (int k = 0; k < chunk_width<T>; ++k) {
      if (k < count) to[k] = values.item[k];
    }
  }
}

// What the points have to give, and get from.
struct PointTasks {
  bool differentiate, sample, round_to_tf32;
};

// A block has the points of 8 x 4 positions, of one image and offset group: they share most of their pixels. It finds
// those of some taps, a thread each, and then a warp has two at a time: it takes the sample's gradient for those of
// offset and mask, and leaves the sample in its place.
constexpr int patch_width = 8, patch_height = 4, patch = patch_width * patch_height;
constexpr int taps_at_once = 9;
constexpr int points_at_once = 2;  // of a warp, so that it waits for both together

template <class C>
struct alignas(16) Visit {
  int64_t pixel, own;  // where the pixel at the top left is, from the image's first, and the sample's first channel
  C below, right, mask;
  int corners;  // a bit for each that is in the image; -1 where there is no such position

  __device__ void find_weights(C (&to)[4]) const {
    const C above = C(1) - below, before = C(1) - right;
    to[0] = above * before;
    to[1] = above * right;
    to[2] = below * before;
    to[3] = below * right;
  }
};

template <class T, bool has_vectors>
__global__ void __launch_bounds__(tile_threads, sizeof(T) == 8 ? 1 : 3)
    visit_points(Sampler<T> sampler, Piece piece, PointTasks tasks, int across, int down, T* samples,
                 View<T, 4> grad_offset, View<T, 4> grad_mask) {
  using C = compute_t<T>;
  constexpr int width = chunk_width<T>;
  __shared__ Visit<C> visits[taps_at_once * patch];
  __shared__ C dots[taps_at_once * patch][4];
  const Convolution& call = sampler.call;
  const int all_taps = static_cast<int>(call.taps()), out_width = static_cast<int>(call.out_width);
  const int block = static_cast<int>(blockIdx.x), offset_groups = static_cast<int>(call.offset_groups);
  const int left = block % across * patch_width;
  const int top = piece.first / out_width + block / across % down * patch_height;
  const int owner = block / across / down, image = owner / offset_groups, offset_group = owner % offset_groups;
  const int channels = static_cast<int>(call.offset_group_channels());
  const int lane = threadIdx.x % lanes;
  const T* const pixels = sampler.pixels.at(piece.image + image, 0, 0) + int64_t{offset_group} * channels;
  T* const own = samples + int64_t{offset_group} * channels;
  for (int first = 0; first < all_taps; first += taps_at_once) {
    const int count = (all_taps - first < taps_at_once ? all_taps - first : taps_at_once) * patch;
    for (int n = threadIdx.x; n < count; n += tile_threads) {
      const int tap = first + n / patch, i = top + n % patch / patch_width, j = left + n % patch_width;
      const int64_t position = int64_t{i} * out_width + j - piece.first;
      Visit<C> visit{0, 0, C(0), C(0), C(0), -1};
      if (j < out_width && position >= 0 && position < piece.positions) {
        const Point<C> point =
            sampler.find(piece.image + image, piece.first + static_cast<int>(position), offset_group, tap, visit.mask);
        visit.pixel = point.top * sampler.pixels.row + point.left * sampler.pixels.column;
        visit.own = ((image * int64_t{piece.positions} + position) * all_taps + tap) * call.channels;
        visit.below = point.below;
        visit.right = point.right;
        visit.corners = point.is_outside ? 16 : 0;
        for (int corner = 0; corner < 4; ++corner) visit.corners |= sampler.has(point, corner) ? 1 << corner : 0;
      }
      visits[n] = visit;
    }
    __syncthreads();
    constexpr int apart = tile_threads / lanes;
    for (int n = threadIdx.x / lanes; n < count; n += points_at_once * apart) {
      C dot[points_at_once][4] = {};
      for (int channel = lane * width; channel < (channels + width - 1) / width * width; channel += lanes * width) {
        const int some = channels - channel;
        Chunk gradient[points_at_once] = {}, value[points_at_once][4] = {};
#pragma unroll
        for (int u = 0; u < points_at_once; ++u) {
          if (n + u * apart >= count) break;
          const Visit<C>& visit = visits[n + u * apart];
          const T* const from = pixels + visit.pixel + channel;
          const int corners = visit.corners;
          if (corners < 0) continue;
          if (tasks.differentiate) gradient[u] = load_channels<has_vectors>(own + visit.own + channel, some);
          if (corners & 1) value[u][0] = load_channels<has_vectors>(from, some);
          if (corners & 2) value[u][1] = load_channels<has_vectors>(from + sampler.pixels.column, some);
          if (corners & 4) value[u][2] = load_channels<has_vectors>(from + sampler.pixels.row, some);
          if (corners & 8) {
            value[u][3] = load_channels<has_vectors>(from + sampler.pixels.row + sampler.pixels.column, some);
          }
        }
#pragma unroll
        for (int u = 0; u < points_at_once; ++u) {
          if (n + u * apart >= count) break;
          const Visit<C>& visit = visits[n + u * apart];
          C weight[4];
          visit.find_weights(weight);
          C factor[width], sample[width] = {};
          widen<T>(gradient[u], factor);
#pragma unroll
          for (int corner = 0; corner < 4; ++corner) {
            C wide[width];
            widen<T>(value[u][corner], wide);
#pragma unroll
            for (int k = 0; k < width; ++k) {
              dot[u][corner] += factor[k] * wide[k];
              sample[k] += weight[corner] * wide[k];
            }
          }
#pragma unroll
          for (int k = 0; k < width; ++k) {
            sample[k] *= visit.mask;
            if constexpr (std::is_same_v<T, float>) {
              if (tasks.round_to_tf32) sample[k] = gpu::round_to_tf32(sample[k]);
            }
          }
          if (tasks.sample && visit.corners >= 0) {
            store_channels<has_vectors>(narrow<T, false>(sample), own + visit.own + channel, some);
          }
        }
      }
#pragma unroll
      for (int u = 0; u < points_at_once; ++u) {
        const C sum = sum_of_four(dot[u]);
        if (lane % 8 == 0 && n + u * apart < count) dots[n + u * apart][lane / 8] = sum;
      }
    }
    __syncthreads();
    for (int n = threadIdx.x; tasks.differentiate && n < count; n += tile_threads) {
      const Visit<C> visit = visits[n];
      if (visit.corners < 0) continue;
      const int channel = offset_group * all_taps + first + n / patch;
      const int i = top + n % patch / patch_width, j = left + n % patch_width;
      if (grad_offset.numel() > 0) {
        C along_y, along_x;
        bilinear::slopes(dots[n], visit.below, visit.right, along_y, along_x);
        const bool is_outside = visit.corners & 16;
        grad_offset(piece.image + image, 2 * channel, i, j) = T(is_outside ? C(0) : visit.mask * along_y);
        grad_offset(piece.image + image, 2 * channel + 1, i, j) = T(is_outside ? C(0) : visit.mask * along_x);
      }
      if (grad_mask.numel() > 0) {
        C weight[4];
        visit.find_weights(weight);
        grad_mask(piece.image + image, channel, i, j) =
            T(weight[0] * dots[n][0] + weight[1] * dots[n][1] + weight[2] * dots[n][2] + weight[3] * dots[n][3]);
      }
    }
    __syncthreads();
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
