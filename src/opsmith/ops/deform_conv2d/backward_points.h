// From the gradients of the samples to those of pixels, offsets and masks, on a GPU.
//
// A pixel's gradient is gathered from the lists of the four cells around it, in their order, so there are no atomics
// and results do not change from run to run. A warp has a strip of pixels and walks along the cells above and below it,
// so that a sample's gradient is read once for the two pixels at its left and right.
#pragma once

#include "backward_products.h"

namespace {

constexpr int lanes = 32;
constexpr int point_threads = 512;

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
template <class C>
__device__ void sum_over_lanes(C (&value)[4]) {
  const int lane = threadIdx.x % lanes;
  const bool second = lane & 16, odd = lane & 8;
  const C low = (second ? value[2] : value[0]) + from_opposite(second ? value[0] : value[2], 16);
  const C high = (second ? value[3] : value[1]) + from_opposite(second ? value[1] : value[3], 16);
  C sum = (odd ? high : low) + from_opposite(odd ? low : high, 8);
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2) sum += from_opposite(sum, mask);
#pragma unroll
  for (int k = 0; k < 4; ++k) value[k] = from_lane(sum, 8 * k);
}

// The channels of a lane, as many as 16 bytes have. Without vectors there may be fewer, and they come one by one.
template <class T>
struct Channels {
  static constexpr int width = copy_bytes / sizeof(T);
  using Values = Vector<T, width>;

  bool has_vectors;
  int count;

  __device__ void load(const T* from, Values& to) const {
    if (has_vectors) {
      to = *reinterpret_cast<const Values*>(from);
    } else {
      for (int k = 0; k < width; ++k) to.item[k] = k < count ? from[k] : T(0.0f);
    }
  }

  __device__ void store(const Values& from, T* to) const {
    if (has_vectors) {
      *reinterpret_cast<Values*>(to) = from;
    } else {
      for (int k = 0; k < width && k < count; ++k) to[k] = from.item[k];
    }
  }
};

// What the points have to give, and get from.
struct PointTasks {
  bool differentiate, sample;
};

// A block has the points of 8 x 4 positions, of one image and offset group: they share most of their pixels. A warp has
// one point at a time. It takes the sample's gradient for those of offset and mask, and leaves the sample in its place.
constexpr int patch_width = 8, patch_height = 4;

template <class T>
__global__ void __launch_bounds__(point_threads, sizeof(T) == 8 ? 1 : 2)
    visit_points(Sampler<T> sampler, Piece piece, PointTasks tasks, int64_t across, int64_t down, T* samples,
                 View<T, 4> grad_offset, View<T, 4> grad_mask) {
  using C = compute_t<T>;
  constexpr int width = Channels<T>::width;
  const Convolution& call = sampler.call;
  const int taps = static_cast<int>(call.taps()), out_width = static_cast<int>(call.out_width);
  const int left = static_cast<int>(blockIdx.x % across) * patch_width;
  const int top = piece.first / out_width + static_cast<int>(blockIdx.x / across % down) * patch_height;
  const int64_t owner = blockIdx.x / across / down;
  const int64_t image = owner / call.offset_groups, offset_group = owner % call.offset_groups;
  const int64_t begin = offset_group * call.offset_group_channels(), end = begin + call.offset_group_channels();
  const int lane = threadIdx.x % lanes;
  for (int n = threadIdx.x / lanes; n < taps * patch_width * patch_height; n += point_threads / lanes) {
    const int tap = n / (patch_width * patch_height), i = top + n / patch_width % patch_height;
    const int j = left + n % patch_width;
    const int64_t position = int64_t{i} * out_width + j;
    if (j >= out_width || position < piece.first || position >= piece.first + piece.positions) continue;
    C mask;
    const Point<C> point =
        sampler.find(piece.image + image, static_cast<int>(position), static_cast<int>(offset_group), tap, mask);
    T* const own = samples + ((image * piece.positions + position - piece.first) * taps + tap) * call.channels;
    C dot[4] = {};
    for (int64_t channel = begin + lane * width; channel < end; channel += lanes * width) {
      const Channels<T> channels{sampler.pixels.has_vectors,
                                 static_cast<int>(end - channel < width ? end - channel : width)};
      typename Channels<T>::Values gradient = {}, value[4] = {};
      if (tasks.differentiate) channels.load(own + channel, gradient);
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
        if (!sampler.has(point, corner)) continue;
        channels.load(sampler.pixels.at(piece.image + image, point.row(corner), point.column(corner)) + channel,
                      value[corner]);
      }
#pragma unroll
      for (int k = 0; k < width; ++k) {
        C sample = 0;
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
          dot[corner] += C(gradient.item[k]) * C(value[corner].item[k]);
          sample += point.weight(corner) * C(value[corner].item[k]);
        }
        gradient.item[k] = T(sample * mask);
      }
      if (tasks.sample) channels.store(gradient, own + channel);
    }
    if (!tasks.differentiate) continue;
    sum_over_lanes(dot);
    const int64_t channel = offset_group * taps + tap;
    if (lane == 0 && grad_offset.numel() > 0) {
      C along_y, along_x;
      slopes(dot, point.below, point.right, along_y, along_x);
      grad_offset(piece.image + image, 2 * channel, i, j) = T(point.is_outside ? C(0) : mask * along_y);
      grad_offset(piece.image + image, 2 * channel + 1, i, j) = T(point.is_outside ? C(0) : mask * along_x);
    }
    if (lane == 0 && grad_mask.numel() > 0) {
      C sum = 0;
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) sum += point.weight(corner) * dot[corner];
      grad_mask(piece.image + image, channel, i, j) = T(sum);
    }
  }
}

// A block of gather_pixels has 8 x 8 pixels, and a warp a strip of four.
constexpr int square = 8, strip = 4;
constexpr int batch = 4;  // gradients that are on their way at once
static_assert(square * square / strip == point_threads / lanes, "each warp has a strip");

// How the blocks lie that own pixels. The channels of a block are of one offset group.
struct PixelGrid {
  int64_t across, down, parts;  // squares along x and y, and shares of an offset group's channels
};

// Between the pieces of an image the sums are in `total`, [pixel][channel]; after the last they are the gradient.
template <class T>
__global__ void __launch_bounds__(point_threads, sizeof(T) == 8 ? 1 : 2)
    gather_pixels(Convolution call, Piece piece, PixelGrid grid, Lists<compute_t<T>> lists, bool has_vectors,
                  const T* grad_samples, compute_t<T>* total, View<T, 4> grad_input) {
  using C = compute_t<T>;
  constexpr int width = Channels<T>::width, share = lanes * width, stride = share + (is_half<T> ? 2 : 1);
  __shared__ T tile[square * square * stride];
  const int64_t rest = blockIdx.x / grid.across / grid.down, owner = rest / grid.parts;
  const int64_t image = owner / call.offset_groups, offset_group = owner % call.offset_groups;
  const int64_t behind = (offset_group + 1) * call.offset_group_channels();
  const int64_t first = offset_group * call.offset_group_channels() + rest % grid.parts * share;
  const int64_t top = blockIdx.x / grid.across % grid.down * square, left = blockIdx.x % grid.across * square;
  const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  const int64_t y = top + warp / (square / strip), x = left + warp % (square / strip) * strip;
  const bool is_first = piece.first == 0, is_last = piece.first + piece.positions == call.positions();
  const int64_t channel = first + lane * width;
  const int64_t own = behind - channel < width ? behind - channel : width;
  const Channels<T> channels{has_vectors, static_cast<int>(own > 0 ? own : 0)};

  // Lane 2 k + r finds the list of the cell k - 1 further than the strip's first pixel, r = 0 above and r = 1 below.
  int list_begin = 0, list_end = 0;
  const int64_t cell_row = y + lane % 2, cell_column = x + lane / 2;
  if (lane < 2 * (strip + 1) && cell_row < lists.high && cell_column < lists.wide) {
    const int64_t cell = (owner * lists.high + cell_row) * lists.wide + cell_column;
    list_end = lists.ends[cell];
    list_begin = list_end - lists.counts[cell];
  }

  C sum[width] = {}, next[width] = {};  // of the pixels at the left and at the right of a cell
  for (int column = 0; column <= strip; ++column) {
    for (int below = 0; below < 2; ++below) {
      const int begin = from_lane(list_begin, 2 * column + below), end = from_lane(list_end, 2 * column + below);
      for (int start = begin; start < end; start += lanes) {
        const int some = end - start < lanes ? end - start : lanes;
        const Entry<C> entry = lists.entries[start + (lane < some ? lane : 0)];
        const C share_y = entry.mask * (below ? C(1) - entry.below : entry.below);
        const C at_left = share_y * (C(1) - entry.right), at_right = share_y * entry.right;
        for (int k = 0; k < some; k += batch) {
          typename Channels<T>::Values gradient[batch] = {};
#pragma unroll
          for (int u = 0; u < batch; ++u) {
            const int64_t source = from_lane(entry.source, k + u < some ? k + u : k);
            if (channels.count > 0) channels.load(grad_samples + source * call.channels + channel, gradient[u]);
          }
#pragma unroll
          for (int u = 0; u < batch; ++u) {
            const C weight = from_lane(at_left, (k + u) % lanes), other = from_lane(at_right, (k + u) % lanes);
            if (k + u >= some) continue;
#pragma unroll
            for (int c = 0; c < width; ++c) {
              sum[c] += weight * C(gradient[u].item[c]);
              next[c] += other * C(gradient[u].item[c]);
            }
          }
        }
      }
    }
    // The cell's left pixel has all that it gets. The first one is another strip's.
    const int64_t pixel = x + column - 1;
    if (column > 0 && pixel < call.width && y < call.height) {
      C* const kept = total + (y * call.width + pixel) * call.channels + channel;
      T* const to = tile + ((y - top) * square + pixel - left) * stride + lane * width;
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c >= channels.count) continue;
        if (!is_first) sum[c] += kept[c];
        if (!is_last) kept[c] = sum[c];
        to[c] = T(sum[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < width; ++c) {
      sum[c] = next[c];
      next[c] = 0;
    }
  }
  if (!is_last) return;
  __syncthreads();

  // Threads next to each other write what lies next to each other.
  const int count = static_cast<int>(behind - first < share ? behind - first : share);
  const bool by_channel = grad_input.stride[1] == 1;
  for (int n = threadIdx.x; n < square * square * count; n += point_threads) {
    const int pixel = by_channel ? n / count : n % (square * square);
    const int c = by_channel ? n % count : n / (square * square);
    const int64_t row = top + pixel / square, column = left + pixel % square;
    if (row < call.height && column < call.width) {
      grad_input(piece.image + image, first + c, row, column) = tile[pixel * stride + c];
    }
  }
}

}  // namespace
