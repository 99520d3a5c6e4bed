// From the gradient of the samples to those of offsets, masks and pixels, on a GPU.
//
// A pixel's gradient is gathered, not scattered, so there are no atomics and results do not change from run to run: a
// block owns 8 x 8 pixels of some channels, looks through the points of its image in their order, and adds up those
// that have one of its pixels at a corner. Offsets have no limit, so any point might. 256 points that follow one
// another are passed over together where their bounding box, found once, does not touch the block's pixels: with
// offsets of a few pixels that leaves a few of them, and with offsets all over the image the search grows with the
// square of its size and is right all the same.
#pragma once

#include "backward_products.h"

namespace {

// Where a tap reads at a position. No pixel is there where `top` is -2.
template <class C>
struct Entry {
  int top, left;
  C below, right, mask;
  int is_outside;

  __device__ Point<C> point() const { return {top, left, below, right, is_outside != 0}; }
};

// Rows and columns that the corners of 256 points touch.
struct Bounds {
  int top, bottom, left, right;
};

// entries[image of the piece][offset group][position][tap], and their bounds.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    find_entries(Sampler<T> sampler, Piece piece, int64_t blocks, Entry<compute_t<T>>* entries, Bounds* bounds) {
  using C = compute_t<T>;
  __shared__ Bounds box;
  const Convolution& call = sampler.call;
  const int64_t count = piece.positions * call.taps(), owner = blockIdx.x / blocks;
  const int64_t image = owner / call.offset_groups, offset_group = owner % call.offset_groups;
  const int64_t n = blockIdx.x % blocks * tile_threads + threadIdx.x;
  if (threadIdx.x == 0) box = {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN};
  __syncthreads();
  if (n < count) {
    C mask;
    const Point<C> point = sampler.find(piece.image + image, piece.first + static_cast<int>(n / call.taps()),
                                        offset_group, static_cast<int>(n % call.taps()), mask);
    const int top = static_cast<int>(point.top), left = static_cast<int>(point.left);
    entries[owner * count + n] = {top, left, point.below, point.right, mask, point.is_outside};
    if (top >= -1) {
      atomicMin(&box.top, top);
      atomicMax(&box.bottom, top + 1);
      atomicMin(&box.left, left);
      atomicMax(&box.right, left + 1);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) bounds[blockIdx.x] = box;
}

constexpr int lanes = 32;

template <class C>
__device__ C sum_over_lanes(C value) {
#pragma unroll
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
#if defined(__HIPCC__)
    value += __shfl_xor(value, mask, lanes);
#else
    value += __shfl_xor_sync(0xffffffffu, value, mask);
#endif
  }
  return value;
}

// Where the gradient of a channel's samples is, from the first of its position on.
OPSMITH_HOST_DEVICE int64_t place_of(const Convolution& call, unsigned channel, int64_t tap) {
  const unsigned of_group = static_cast<unsigned>(call.group_channels());
  const unsigned group = channel / of_group, inner = channel % of_group;
  return group * steps_of(call) * tile_steps + (inner / tile_steps * call.taps() + tap) * tile_steps +
         inner % tile_steps;
}

// The gradients of offsets and masks: 32 lanes sum over the channels of one point.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    sum_points(Sampler<T> sampler, Piece piece, const Entry<compute_t<T>>* entries, const compute_t<T>* grad_samples,
               View<T, 4> grad_offset, View<T, 4> grad_mask) {
  using C = compute_t<T>;
  const Convolution& call = sampler.call;
  const int64_t count = piece.positions * call.taps(), all = piece.images * call.offset_groups * count;
  const int64_t n = blockIdx.x * int64_t{tile_threads / lanes} + threadIdx.x / lanes;
  if (n >= all) return;
  const int lane = threadIdx.x % lanes;
  const int64_t image = n / count / call.offset_groups, offset_group = n / count % call.offset_groups;
  const int64_t local = n % count / call.taps(), tap = n % count % call.taps();
  const Entry<C> entry = entries[n];
  const Point<C> point = entry.point();
  const int64_t row = call.groups * steps_of(call) * tile_steps;
  const C* const gradients = grad_samples + (image * piece.positions + local) * row;
  C dot[4] = {};
  const unsigned begin = static_cast<unsigned>(offset_group * call.offset_group_channels());
  const unsigned end = begin + static_cast<unsigned>(call.offset_group_channels());
  for (unsigned channel = begin + lane; channel < end; channel += lanes) {
    const C gradient = gradients[place_of(call, channel, tap)];
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      const C value = sampler.has(point, corner)
                          ? C(sampler.pixels.at(piece.image + image, point.row(corner), point.column(corner))[channel])
                          : C(0);
      dot[corner] += gradient * value;
    }
  }
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) dot[corner] = sum_over_lanes(dot[corner]);
  if (lane > 0) return;
  const int64_t position = piece.first + local, i = position / call.out_width, j = position % call.out_width;
  const int64_t channel = offset_group * call.taps() + tap;
  if (grad_offset.numel() > 0) {
    C along_y, along_x;
    slopes(dot, point.below, point.right, along_y, along_x);
    grad_offset(piece.image + image, 2 * channel, i, j) = T(point.is_outside ? C(0) : entry.mask * along_y);
    grad_offset(piece.image + image, 2 * channel + 1, i, j) = T(point.is_outside ? C(0) : entry.mask * along_x);
  }
  if (grad_mask.numel() > 0) {
    C sum = 0;
    for (int corner = 0; corner < 4; ++corner) sum += point.weight(corner) * dot[corner];
    grad_mask(piece.image + image, channel, i, j) = T(sum);
  }
}

constexpr int square = 8;  // pixels along a side of what a block owns; as many as it has groups of 32 threads

// How the blocks that own pixels lie. Channels of a block are of one offset group.
struct PixelGrid {
  int64_t across, down, parts;  // squares along x and y, and shares of an offset group's channels
};

// Between the pieces of an image the sums are in `total`, [pixel][channel]; after the last they are the gradient.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    gather_pixels(Convolution call, Piece piece, PixelGrid grid, int64_t blocks, const Entry<compute_t<T>>* entries,
                  const Bounds* bounds, const compute_t<T>* grad_samples, compute_t<T>* total, View<T, 4> grad_input) {
  using C = compute_t<T>;
  constexpr int width = 512 / sizeof(C), stride = width + 1;
  __shared__ C sums[square * square * stride];
  __shared__ unsigned hits[tile_threads / lanes];
  __shared__ int found[tile_threads];
  const int left = static_cast<int>(blockIdx.x % grid.across) * square;
  const int top = static_cast<int>(blockIdx.x / grid.across % grid.down) * square;
  const int64_t rest = blockIdx.x / grid.across / grid.down, owner = rest / grid.parts;
  const int64_t image = owner / call.offset_groups, offset_group = owner % call.offset_groups;
  const int64_t behind = (offset_group + 1) * call.offset_group_channels();
  const int64_t channel = offset_group * call.offset_group_channels() + rest % grid.parts * width;
  const int channels = static_cast<int>(behind - channel < width ? behind - channel : width);
  const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  const bool is_first = piece.first == 0, is_last = piece.first + piece.positions == call.positions();

  // Pixels next to each other go to threads next to each other.
  const auto for_each_sum = [&](const auto& f) {
    for (int n = threadIdx.x; n < square * square * channels; n += tile_threads) {
      const int pixel = n % (square * square), c = n / (square * square);
      const int64_t y = top + pixel / square, x = left + pixel % square;
      if (y < call.height && x < call.width) f(sums[pixel * stride + c], y, x, channel + c);
    }
  };
  for_each_sum([&](C& sum, int64_t y, int64_t x, int64_t c) {
    sum = is_first ? C(0) : total[(y * call.width + x) * call.channels + c];
  });
  __syncthreads();

  const int64_t count = piece.positions * call.taps();
  const int64_t row = call.groups * steps_of(call) * tile_steps;
  for (int64_t block = 0; block < blocks; ++block) {
    const Bounds box = bounds[owner * blocks + block];
    if (box.bottom < top || box.top >= top + square || box.right < left || box.left >= left + square) continue;
    // Those that touch the square, in their order.
    const int64_t n = block * tile_threads + threadIdx.x;
    bool touches = false;
    if (n < count) {
      const Entry<C>& entry = entries[owner * count + n];
      touches =
          entry.top >= top - 1 && entry.top < top + square && entry.left >= left - 1 && entry.left < left + square;
    }
    if (lane == 0) hits[group] = 0;
    __syncthreads();
    if (touches) atomicOr(&hits[group], 1u << lane);
    __syncthreads();
    int before = 0, all = 0;
    for (int k = 0; k < tile_threads / lanes; ++k) {
      const int some = __popc(hits[k]);
      before += k < group ? some : 0;
      all += some;
    }
    if (touches) found[before + __popc(hits[group] & ((1u << lane) - 1))] = static_cast<int>(threadIdx.x);
    __syncthreads();
    // A row of the square belongs to 32 threads, and a channel to one of them.
    for (int k = 0; k < all; ++k) {
      const int64_t place = block * tile_threads + found[k];
      const Entry<C> entry = entries[owner * count + place];
      const int below = top + group - entry.top;
      if (below < 0 || below > 1) continue;
      const Point<C> point = entry.point();
      const int first = entry.left - left;
      const C weight[2] = {entry.mask * point.weight(2 * below), entry.mask * point.weight(2 * below + 1)};
      const C* const gradients = grad_samples + (image * piece.positions + place / call.taps()) * row;
      C* const sum = sums + (group * square + first) * stride;
      for (int c = lane; c < channels; c += lanes) {
        const C gradient = gradients[place_of(call, static_cast<unsigned>(channel + c), place % call.taps())];
        if (first >= 0) sum[c] += weight[0] * gradient;
        if (first + 1 < square) sum[stride + c] += weight[1] * gradient;
      }
    }
    __syncthreads();
  }
  for_each_sum([&](C& sum, int64_t y, int64_t x, int64_t c) {
    if (is_last) {
      grad_input(piece.image + image, c, y, x) = T(sum);
    } else {
      total[(y * call.width + x) * call.channels + c] = sum;
    }
  });
}

}  // namespace
