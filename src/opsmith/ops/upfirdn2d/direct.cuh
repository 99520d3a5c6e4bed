// The GPU kernel for every call that has no kernel of bands (bands.cuh): any filter, strides and sizes.
#pragma once

#include "../_filters/taps.cuh"

namespace opsmith::ops::upfirdn2d {
namespace {

using filters::Axis, filters::ceil_div, filters::DeviceTaps, filters::Filtering, filters::most_up_down,
    filters::start_of;

constexpr int direct_threads = 256;
// Filters of up to this many taps are kept in shared memory.
constexpr int most_kept_taps = 1024;

// `width` adjacent channels of one output for a thread, by the definition: reads what it needs through the caches. Any
// filter, strides and sizes. Neighbours are along the channels in channels_last, else along x. Index is int where that
// is enough, else int64_t, whose divisions take several times as long.
template <int width, class Index, class T>
__global__ void __launch_bounds__(direct_threads)
    direct(View<const T, 4> x, DeviceTaps taps, Filtering filtering, View<T, 4> out, Index items) {
  using C = compute_t<T>;
  __shared__ float kept[most_kept_taps];
  const bool separable = filtering.separable;
  const int64_t rows = separable ? 2 : filtering.y.taps;
  const Index columns = static_cast<Index>(filtering.x.taps), taps_y = static_cast<Index>(filtering.y.taps);
  const auto read = [&](int64_t i, int64_t k) { return separable ? taps(i, k) : taps.full(i, k); };
  const bool keeps = rows <= most_kept_taps && columns <= most_kept_taps && rows * columns <= most_kept_taps;
  const C gain = static_cast<C>(filtering.gain);
  C start = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = threadIdx.x; k < columns; k += direct_threads) {
      const float tap = read(i, k);
      start = start_of(start, static_cast<C>(tap));
      if (keeps) kept[i * columns + k] = tap;
    }
  }
  if (__syncthreads_or(start != start || gain != gain)) start = static_cast<C>(NAN);
  const auto tap_at = [&](Index i, Index k) { return static_cast<C>(keeps ? kept[i * columns + k] : read(i, k)); };
  const Index groups = static_cast<Index>(out.size[1] / width);
  const Index out_height = static_cast<Index>(out.size[2]), out_width = static_cast<Index>(out.size[3]);
  const Index height = static_cast<Index>(x.size[2]), in_width = static_cast<Index>(x.size[3]);
  const Index up_y = static_cast<Index>(filtering.y.up), up_x = static_cast<Index>(filtering.x.up);
  const Index down_y = static_cast<Index>(filtering.y.down), down_x = static_cast<Index>(filtering.x.down);
  const Index pad_y = static_cast<Index>(filtering.y.pad), pad_x = static_cast<Index>(filtering.x.pad);
  for (Index item = static_cast<Index>(blockIdx.x) * direct_threads + threadIdx.x; item < items;
       item += static_cast<Index>(gridDim.x) * direct_threads) {
    Index rest = item, channel = 0;
    if constexpr (width > 1) {
      channel = rest % groups * width;
      rest /= groups;
    }
    const Index ox = rest % out_width;
    rest /= out_width;
    const Index oy = rest % out_height;
    rest /= out_height;
    if constexpr (width == 1) {
      channel = rest % groups;
      rest /= groups;
    }
    const int64_t image = rest;
    const Index from_x = ox * down_x - pad_x, from_y = oy * down_y - pad_y;
    const Index first_x = ceil_div(from_x, up_x);
    Index iy = ceil_div(from_y, up_y);
    const T* plane = x.data + image * x.stride[0] + channel * x.stride[1];
    C sum[width];
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] = start;
    for (Index ky = iy * up_y - from_y; ky < taps_y; ky += up_y, ++iy) {
      if (iy < 0 || iy >= height) continue;
      C row[width] = {};
      Index ix = first_x;
      for (Index kx = first_x * up_x - from_x; kx < columns; kx += up_x, ++ix) {
        if (ix < 0 || ix >= in_width) continue;
        const C tap = tap_at(separable ? 1 : ky, kx);
        const T* from = plane + iy * x.stride[2] + ix * x.stride[3];
        if constexpr (width == 1) {
          row[0] += tap * static_cast<C>(*from);
        } else {
          const auto values = *reinterpret_cast<const Vector<T, width>*>(from);
#pragma unroll
          for (int c = 0; c < width; ++c) row[c] += tap * static_cast<C>(values.item[c]);
        }
      }
      const C tap = separable ? tap_at(0, ky) * gain : gain;
#pragma unroll
      for (int c = 0; c < width; ++c) sum[c] += tap * row[c];
    }
    T* to = out.data + image * out.stride[0] + channel * out.stride[1] + oy * out.stride[2] + ox * out.stride[3];
    if constexpr (width == 1) {
      *to = static_cast<T>(sum[0]);
    } else {
      Vector<T, width> values;
#pragma unroll
      for (int c = 0; c < width; ++c) values.item[c] = static_cast<T>(sum[c]);
      *reinterpret_cast<Vector<T, width>*>(to) = values;
    }
  }
}

template <int width, class T>
void launch_direct(const View<const T, 4>& x, const DeviceTaps& taps, const Filtering& filtering, const View<T, 4>& out,
                   Stream stream) {
  const int64_t items = out.numel() / width;
  const unsigned blocks = blocks_for(items, direct_threads);
  // What is added to an item, and what a coordinate is multiplied with, must not leave 31 bits.
  constexpr int64_t most = int64_t{1} << 30, most_size = most / most_up_down;
  const auto fits = [](const Axis& axis) {
    return axis.in < most_size && axis.out < most_size && axis.taps < most_size && axis.pad < most / 2 &&
           axis.pad > -most / 2;
  };
  if (items < most && fits(filtering.y) && fits(filtering.x)) {
    direct<width><<<blocks, direct_threads, 0, stream>>>(x, taps, filtering, out, static_cast<int>(items));
  } else {
    direct<width><<<blocks, direct_threads, 0, stream>>>(x, taps, filtering, out, items);
  }
}

}  // namespace
}  // namespace opsmith::ops::upfirdn2d
