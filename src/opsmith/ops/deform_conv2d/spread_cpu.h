// What the backward on the CPU does with one tile of one segment: from the gradient of the samples to that of their
// pixels, and the sums that the gradients of offsets and masks are made of.
#pragma once

#include "cpu.h"

namespace opsmith::ops::deform_conv2d {
namespace {

// One tile of one segment. What is not asked for is null.
template <class C>
struct Spread {
  const std::vector<TapPixels<C>>& places;  // [position][tap], in elements of `pixels`
  int64_t taps, channels;
  const C* pixels;        // [pixel][channel], and one more that is zero
  C* grad_pixels;         // likewise; what is added to the one more is dropped
  C* samples;             // [position][row], tap * channels + channel in a row
  const C* grad_samples;  // likewise, of the samples times the mask
  int64_t row;
  C* dots;  // [position][tap][4], the sums over channels of grad_samples * pixels

  // Handles the channels from c on that fill a vector.
  template <int bytes>
  OPSMITH_HOST_DEVICE void add(const TapPixels<C>& place, int64_t c, C* sample, const C* grad_sample,
                               typename cpu::Register<bytes, C>::Lanes dot[4]) const {
    using Lanes = typename cpu::Register<bytes, C>::Lanes;
    Lanes value[4];
    for (int k = 0; k < 4; ++k) value[k] = *reinterpret_cast<const Lanes*>(pixels + place.pixel[k] + c);
    if (sample != nullptr) {
      Lanes sum = place.weight[0] * value[0];
      for (int k = 1; k < 4; ++k) sum += place.weight[k] * value[k];
      *reinterpret_cast<Lanes*>(sample + c) = place.mask * sum;
    }
    if (grad_sample == nullptr) return;
    const Lanes gradient = *reinterpret_cast<const Lanes*>(grad_sample + c);
    for (int k = 0; k < 4; ++k) dot[k] += gradient * value[k];
    if (grad_pixels == nullptr) return;
    for (int k = 0; k < 4; ++k) {
      *reinterpret_cast<Lanes*>(grad_pixels + place.pixel[k] + c) += (place.mask * place.weight[k]) * gradient;
    }
  }
};

struct SpreadTile {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const Spread<C>& tile) const {
    constexpr int64_t lanes = bytes / sizeof(C);
    const int64_t count = static_cast<int64_t>(tile.places.size());
    for (int64_t n = 0; n < count; ++n) {
      const int64_t at = n / tile.taps * tile.row + n % tile.taps * tile.channels;
      C* const sample = tile.samples == nullptr ? nullptr : tile.samples + at;
      const C* const grad_sample = tile.grad_samples == nullptr ? nullptr : tile.grad_samples + at;
      const TapPixels<C>& place = tile.places[static_cast<size_t>(n)];
      typename cpu::Register<bytes, C>::Lanes wide[4] = {};
      typename cpu::Register<sizeof(C), C>::Lanes narrow[4] = {};
      int64_t c = 0;
      for (; c + lanes <= tile.channels; c += lanes) tile.template add<bytes>(place, c, sample, grad_sample, wide);
      for (; c < tile.channels; ++c) tile.template add<sizeof(C)>(place, c, sample, grad_sample, narrow);
      if (tile.dots == nullptr) continue;
      for (int k = 0; k < 4; ++k) tile.dots[4 * n + k] = cpu::sum_of<bytes, C>(wide[k]) + narrow[k][0];
    }
  }
};

template <class C>
__attribute__((noinline)) void spread_tile(const Spread<C>& tile) {
  with_vector_bytes<SpreadTile, const Spread<C>&>(SpreadTile{}, tile);
}

template <class C>
void add_to(int64_t n, const C* from, C* to) {
  with_best_isa(
      [](int64_t n, const C* __restrict__ from, C* __restrict__ to) {
        for (int64_t k = 0; k < n; ++k) to[k] += from[k];
      },
      n, from, to);
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
