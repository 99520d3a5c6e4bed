// What all GPU kernels of filtered_lrelu have in common: their arguments, how work is shared out, and sums of a block.
#pragma once

#include "../_filters/taps.cuh"
#include "filtered_lrelu.h"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::DeviceTaps, filters::Filtering, filters::no_bias;

constexpr int threads = 256;

// A filter of the call or its transposed, with its taps.
struct Pass {
  Filtering filtering;
  DeviceTaps taps;

  Pass(const Filtering& filtering, const View<const float, 2>& f) : filtering(filtering), taps{f, filtering.reversed} {}
};

// Whether every coordinate fits into an int, also times a factor, and a filter has few taps.
inline bool has_small_sizes(const Filtering& filtering) {
  constexpr int64_t most = int64_t{1} << 30, most_taps = int64_t{1} << 12;
  for (const filters::Axis* axis : {&filtering.y, &filtering.x}) {
    if (axis->in >= most / axis->up || axis->out >= most / axis->down || axis->taps > most_taps) return false;
    if (axis->pad >= most || axis->pad <= -most) return false;
  }
  return true;
}

// How the output's planes are shared out: each in `tiles` pieces, a block one after another.
struct Items {
  int64_t images, channels, tiles;
  // Where the channels of a pixel lie side by side, blocks that run at the same time take the same pixels.
  bool channels_first;

  OPSMITH_HOST_DEVICE int64_t count() const { return images * channels * tiles; }

  struct Place {
    int64_t image, channel, tile;
  };
  __device__ Place operator[](int64_t item) const {
    if (channels_first) return {item / channels / tiles, item % channels, item / channels % tiles};
    return {item / tiles / channels, item / tiles % channels, item % tiles};
  }
};

template <class T>
__device__ compute_t<T> bias_of(const View<const T, 1>& b, int64_t channel) {
  return b ? static_cast<compute_t<T>>(b(channel)) : no_bias<compute_t<T>>;
}

// Where the sums of a channel's tiles go, [channels, images * tiles]; a bias without a gradient has none.
struct Partials {
  double* data;

  // Adds up one number of each thread; `room` is for one double of each.
  template <class C>
  __device__ void leave(C value, double* room, const Items& items, const Items::Place& place) const {
    if (data == nullptr) return;
    __syncthreads();
    room[threadIdx.x] = static_cast<double>(value);
    for (int half = threads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    }
    if (threadIdx.x == 0) {
      data[(place.channel * items.images + place.image) * items.tiles + place.tile] = room[0];
    }
  }
};

// A forward call, or a backward one, whose `grad_y` and `grad` take part.
template <class T, bool is_backward>
struct Call {
  View<const T, 4> x, grad_y;
  View<const T, 1> b;
  View<T, 4> out;
  Pass up, grad, down;
  Items items;
  int tiles_x;
  Partials partials;
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
