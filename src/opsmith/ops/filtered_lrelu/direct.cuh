// The GPU kernel for every call that has no tile kernel (tiles.cuh): filters that shared memory does not hold, and
// sizes beyond 30 bits. By the definition, an output for a thread: u is made again for each tap that meets it.
#pragma once

#include "device.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::Axis, filters::start_of;

// One number that a filter makes of a plane of `at(y, x)`.
template <class C, class At>
__device__ C filtered(const Pass& pass, C start, int64_t y, int64_t x, const At& at) {
  const Axis &axis_y = pass.filtering.y, &axis_x = pass.filtering.x;
  const bool separable = pass.filtering.separable;
  const C gain = static_cast<C>(pass.filtering.gain);
  C sum = start;
  int64_t row = axis_y.first_input(y);
  for (int64_t ky = axis_y.first_tap(y); ky < axis_y.taps; ky += axis_y.up, ++row) {
    if (row < 0 || row >= axis_y.in) continue;
    C line = 0;
    int64_t column = axis_x.first_input(x);
    for (int64_t kx = axis_x.first_tap(x); kx < axis_x.taps; kx += axis_x.up, ++column) {
      if (column < 0 || column >= axis_x.in) continue;
      line += static_cast<C>(separable ? pass.taps(1, kx) : pass.taps.full(ky, kx)) * at(row, column);
    }
    sum += (separable ? static_cast<C>(pass.taps(0, ky)) * gain : gain) * line;
  }
  return sum;
}

// What sums of a filter begin with, found by all threads of a block.
template <class C>
__device__ C start_of(const Pass& pass) {
  bool is_nan = false;
  const View<const float, 2>& f = pass.taps.f;
  for (int64_t i = threadIdx.x; i < f.size[0] * f.size[1]; i += threads) {
    const float tap = f(i / f.size[1], i % f.size[1]);
    is_nan = is_nan || tap != tap;
  }
  return __syncthreads_or(is_nan) ? static_cast<C>(NAN) : C(0);
}

template <class T, bool is_backward, class Act>
__global__ void __launch_bounds__(threads, 2) make_directly(Call<T, is_backward> call, Act act) {
  using C = compute_t<T>;
  __shared__ double room[threads];
  const C up_start = start_of<C>(call.up), down_start = start_of<C>(call.down);
  const C grad_start = is_backward ? start_of<C>(call.grad) : C(0);
  const int64_t width = call.out.size[3], count = call.out.size[2] * width;
  for (int64_t item = blockIdx.x; item < call.items.count(); item += gridDim.x) {
    const Items::Place place = call.items[item];
    const auto plane_of = [&](const auto& view) {
      return view.data + place.image * view.stride[0] + place.channel * view.stride[1];
    };
    const T* samples = plane_of(call.x);
    const C bias = bias_of(call.b, place.channel);
    const auto u_at = [&](int64_t y, int64_t x) {
      return filtered(call.up, up_start, y, x, [&](int64_t row, int64_t column) {
        return static_cast<C>(samples[row * call.x.stride[2] + column * call.x.stride[3]]) + bias;
      });
    };
    const int64_t output = place.tile * threads + threadIdx.x;
    C value = 0;
    if (output < count) {
      value = filtered(call.down, down_start, output / width, output % width, [&](int64_t y, int64_t x) {
        if constexpr (is_backward) {
          const T* grads = plane_of(call.grad_y);
          const C grad = filtered(call.grad, grad_start, y, x, [&](int64_t row, int64_t column) {
            return static_cast<C>(grads[row * call.grad_y.stride[2] + column * call.grad_y.stride[3]]);
          });
          return act(grad, u_at(y, x));
        } else {
          return act(u_at(y, x));
        }
      });
      plane_of(call.out)[output / width * call.out.stride[2] + output % width * call.out.stride[3]] =
          static_cast<T>(value);
    }
    if constexpr (is_backward) call.partials.leave(value, room, call.items, place);
  }
}

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
