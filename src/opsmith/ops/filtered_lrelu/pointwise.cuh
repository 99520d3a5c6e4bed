// The GPU kernel for filters of one tap without resampling or padding, as StyleGAN3's last layer has them: an output is
// made of one sample, and all there is to do is to read and write fast.
#pragma once

#include "device.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::Axis, filters::Filtering;

inline bool is_pointwise(const Filtering& filtering) {
  const auto is_one = [](const Axis& axis) {
    return axis.up == 1 && axis.down == 1 && axis.pad == 0 && axis.taps == 1 && axis.in == axis.out;
  };
  return is_one(filtering.y) && is_one(filtering.x);
}

// Whether the pixels of a plane lie side by side.
template <class T>
bool has_planes(const View<T, 4>& x) {
  return (x.size[3] == 1 || x.stride[3] == 1) && (x.size[2] == 1 || x.stride[2] == x.size[3]);
}

// Whether all planes begin at a multiple of `bytes` and are as long.
template <class T>
bool has_aligned_planes(const View<T, 4>& x, int bytes) {
  constexpr auto size = static_cast<int64_t>(sizeof(T));
  return is_aligned(x.data, bytes) && x.stride[0] * size % bytes == 0 && x.stride[1] * size % bytes == 0 &&
         x.size[2] * x.size[3] * size % bytes == 0;
}

// Loads of a thread, all on their way at once.
constexpr int pointwise_loads = 4;

// The only tap of a pass.
template <class C>
__device__ C tap_of(const Pass& pass) {
  const C tap = static_cast<C>(pass.taps(0, 0)) * static_cast<C>(pass.filtering.gain);
  return pass.filtering.separable ? tap * static_cast<C>(pass.taps(1, 0)) : tap;
}

// A block makes `pointwise_loads` vectors for each of its threads, one item after another.
template <class T, bool is_backward, int wide, class Act>
__global__ void __launch_bounds__(threads) make_pointwise(Call<T, is_backward> call, Act act) {
  using C = compute_t<T>;
  __shared__ double room[is_backward ? threads : 1];
  const C up = tap_of<C>(call.up), grad = tap_of<C>(call.grad), down = tap_of<C>(call.down);
  const int64_t pixels = call.x.size[2] * call.x.size[3];
  for (int64_t item = blockIdx.x; item < call.items.count(); item += gridDim.x) {
    const Items::Place place = call.items[item];
    const auto plane = [&](const auto& view) {
      return view.data + place.image * view.stride[0] + place.channel * view.stride[1];
    };
    const C bias = bias_of(call.b, place.channel);
    const int64_t first = (place.tile * pointwise_loads * threads + threadIdx.x) * wide;
    Vector<T, wide> x[pointwise_loads], grad_y[pointwise_loads];
#pragma unroll
    for (int k = 0; k < pointwise_loads; ++k) {
      const int64_t at = first + int64_t{k} * threads * wide;
      if (at >= pixels) continue;
      x[k] = *reinterpret_cast<const Vector<T, wide>*>(plane(call.x) + at);
      if constexpr (is_backward) grad_y[k] = *reinterpret_cast<const Vector<T, wide>*>(plane(call.grad_y) + at);
    }
    C total = 0;
#pragma unroll
    for (int k = 0; k < pointwise_loads; ++k) {
      const int64_t at = first + int64_t{k} * threads * wide;
      if (at >= pixels) continue;
      C made[wide];
#pragma unroll
      for (int i = 0; i < wide; ++i) {
        const C u = up * (static_cast<C>(x[k].item[i]) + bias);
        if constexpr (is_backward) {
          made[i] = down * act(grad * static_cast<C>(grad_y[k].item[i]), u);
          total += made[i];
        } else {
          made[i] = down * act(u);
        }
      }
      *reinterpret_cast<Vector<T, wide>*>(plane(call.out) + at) = rounded<T>(made);
    }
    if constexpr (is_backward) call.partials.leave(total, room, call.items, place);
    __syncthreads();  // the next item's sums go where these were
  }
}

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
