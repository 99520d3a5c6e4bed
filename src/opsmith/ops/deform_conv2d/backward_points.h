// From the gradients of the samples to those of offsets and masks, on a GPU, and to the samples.
#pragma once

#include "backward_products.h"

namespace {

constexpr int lanes = 32;

template <class T>
__device__ T from_lane(T value, int lane) {
#if defined(__HIPCC__)
  return __shfl(value, lane, lanes);
#else
  return __shfl_sync(0xffffffffu, value, lane);
#endif
}

template <class T>
__device__ T from_opposite(T value, int mask) {
#if defined(__HIPCC__)
  return __shfl_xor(value, mask, lanes);
#else
  return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

// Sums four numbers over the lanes: each lane keeps half of what it has and gives the other away, until it has one.
// Lane l gets the sum of value[l / 8].
template <class C>
__device__ C sum_over_lanes(const C (&value)[4]) {
  const int lane = threadIdx.x % lanes;
  const bool second = lane & 16, odd = lane & 8;
  const C low = (second ? value[2] : value[0]) + from_opposite(second ? value[0] : value[2], 16);
  const C high = (second ? value[3] : value[1]) + from_opposite(second ? value[1] : value[3], 16);
  C sum = (odd ? high : low) + from_opposite(odd ? low : high, 8);
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2) sum += from_opposite(sum, mask);
  return sum;
}

// The channels of a lane, as many as 16 bytes have. Without vectors there may be fewer, and they come one by one.
template <class T>
struct Channels {
  static constexpr int width = chunk_width<T>;

  bool has_vectors;
  int count;

  __device__ Channels(bool vectors, int64_t left)
      : has_vectors(vectors),
        count(left < 0       ? 0
              : left < width ? static_cast<int>(left)
                             : width) {}

  __device__ Chunk load(const T* from) const {
    if (has_vectors) return *reinterpret_cast<const Chunk*>(from);
    Vector<T, width> values{};
    for (int k = 0; k < width; ++k) {
      if (k < count) values.item[k] = from[k];
    }
    return bit_cast<Chunk>(values);
  }

  __device__ void store(const Chunk& chunk, T* to) const {
    if (has_vectors) {
      *reinterpret_cast<Chunk*>(to) = chunk;
    } else {
      const auto values = bit_cast<Vector<T, width>>(chunk);
      for (int k = 0; k < width; ++k) {
        if (k < count) to[k] = values.item[k];
      }
    }
  }
};

// What the points have to give, and get from.
struct PointTasks {
  bool differentiate, sample;
};

// A block has the points of 8 x 4 positions, of one image and offset group: they share most of their pixels. It finds
// those of some taps, a thread each, and then a warp has one at a time: it takes the sample's gradient for those of
// offset and mask, and leaves the sample in its place.
constexpr int patch_width = 8, patch_height = 4, patch = patch_width * patch_height;
constexpr int taps_at_once = 9;

template <class C>
struct alignas(16) Visit {
  int64_t pixel, own;  // where the pixel at the top left is, from the image's first, and the sample's first channel
  C below, right, mask;
  int corners;  // a bit for each that is in the image; -1 where there is no such position
};

template <class T>
__global__ void __launch_bounds__(tile_threads, sizeof(T) == 8 ? 1 : 4)
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
    for (int n = threadIdx.x / lanes; n < count; n += tile_threads / lanes) {
      const Visit<C> visit = visits[n];
      if (visit.corners < 0) continue;
      const C above = C(1) - visit.below, before = C(1) - visit.right;
      const C weight[4] = {above * before, above * visit.right, visit.below * before, visit.below * visit.right};
      C dot[4] = {};
      for (int channel = lane * width; channel < channels; channel += lanes * width) {
        const Channels<T> some(sampler.pixels.has_vectors, channels - channel);
        const T* const from = pixels + visit.pixel + channel;
        Chunk value[4] = {}, gradient = {};
        if (tasks.differentiate) gradient = some.load(own + visit.own + channel);
        if (visit.corners & 1) value[0] = some.load(from);
        if (visit.corners & 2) value[1] = some.load(from + sampler.pixels.column);
        if (visit.corners & 4) value[2] = some.load(from + sampler.pixels.row);
        if (visit.corners & 8) value[3] = some.load(from + sampler.pixels.row + sampler.pixels.column);
        C factor[width], sample[width] = {};
        widen<T>(gradient, factor);
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
          C wide[width];
          widen<T>(value[corner], wide);
#pragma unroll
          for (int k = 0; k < width; ++k) {
            dot[corner] += factor[k] * wide[k];
            sample[k] += weight[corner] * wide[k];
          }
        }
        if (tasks.sample) {
#pragma unroll
          for (int k = 0; k < width; ++k) sample[k] *= visit.mask;
          some.store(narrow<T, false>(sample), own + visit.own + channel);
        }
      }
      if (!tasks.differentiate) continue;
      const C sum = sum_over_lanes(dot);
      if (lane % 8 == 0) dots[n][lane / 8] = sum;
    }
    __syncthreads();
    for (int n = threadIdx.x; tasks.differentiate && n < count; n += tile_threads) {
      const Visit<C> visit = visits[n];
      if (visit.corners < 0) continue;
      const int channel = offset_group * all_taps + first + n / patch;
      const int i = top + n % patch / patch_width, j = left + n % patch_width;
      if (grad_offset.numel() > 0) {
        C along_y, along_x;
        slopes(dots[n], visit.below, visit.right, along_y, along_x);
        const bool is_outside = visit.corners & 16;
        grad_offset(piece.image + image, 2 * channel, i, j) = T(is_outside ? C(0) : visit.mask * along_y);
        grad_offset(piece.image + image, 2 * channel + 1, i, j) = T(is_outside ? C(0) : visit.mask * along_x);
      }
      if (grad_mask.numel() > 0) {
        const C above = C(1) - visit.below, before = C(1) - visit.right;
        grad_mask(piece.image + image, channel, i, j) =
            T(above * before * dots[n][0] + above * visit.right * dots[n][1] + visit.below * before * dots[n][2] +
              visit.below * visit.right * dots[n][3]);
      }
    }
    __syncthreads();
  }
}

}  // namespace
