// The forward on a GPU: an implicit product. A block makes 64 positions of some outputs; it samples 32 channels of a
// tap into shared memory, and multiplies them with the weights there. No sample is ever in global memory.
#pragma once

#include "gpu_samples.h"

namespace {

// The weights as [group][output, filled up to `rows`][step][32 channels].
template <class T>
__global__ void __launch_bounds__(tile_threads)
    lay_out_weights(Convolution call, View<const T, 4> weight, int64_t rows, T* to) {
  const int64_t row = steps_of(call) * tile_steps, count = call.groups * rows * row;
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    const int64_t step = n % row / tile_steps, o = n / row % rows, group = n / row / rows;
    const int64_t tap = step % call.taps(), channel = step / call.taps() * tile_steps + n % tile_steps;
    const bool is_there = o < call.group_outputs() && channel < call.group_channels();
    to[n] =
        is_there ? weight(group * call.group_outputs() + o, channel, tap / call.taps_x, tap % call.taps_x) : T(0.0f);
  }
}

// Which tile a block makes: those of one place and all outputs follow one another, so that they find the same pixels in
// the second-level cache.
struct ForwardGrid {
  int64_t across, tiles;  // tiles along the outputs of a group, and along the positions of an image
};

template <class T, int columns, bool tf32>
__global__ void __launch_bounds__(tile_threads, 1)
    convolve_tiles(Sampler<T> sampler, const T* weights, ForwardGrid grid, View<const T, 1> bias, View<T, 4> out) {
  using Product = TileProduct<T, columns, false, tf32>;
  using C = compute_t<T>;
  __shared__ typename Product::Rows samples;
  __shared__ typename Product::Columns factors;
  const Convolution& call = sampler.call;
  const int64_t first_output = blockIdx.x % grid.across * columns;
  const int64_t group = blockIdx.x / grid.across % call.groups;
  const int first = static_cast<int>(blockIdx.x / grid.across / call.groups % grid.tiles) * tile_rows;
  const int64_t n = blockIdx.x / grid.across / call.groups / grid.tiles;
  const int positions = static_cast<int>(call.positions()), taps = static_cast<int>(call.taps());
  const int64_t steps = steps_of(call);
  const T* const own = weights + (group * grid.across * columns + first_output) * steps * tile_steps;
  Product product;
  int64_t channel = 0;
  int tap = 0;
  for (int64_t step = 0; step < steps; ++step) {
    samples.fill([&](int row, int column, T(&to)[vector_width]) {
      // Beyond the last position the last one is made again, and not stored.
      const int position = first + row < positions ? first + row : positions - 1;
      sampler.load(n, position, group, channel + column, tap, to);
    });
    factors.fill([&](int row, int column, T(&to)[vector_width]) {
      Sampler<T>::load_vector(own + (row * steps + step) * tile_steps + column, to);
    });
    __syncthreads();
    product.add(samples, factors);
    __syncthreads();
    if (++tap == taps) {
      tap = 0;
      channel += tile_steps;
    }
  }
  product.for_each([&](int row, int column, C sum) {
    const int position = first + row;
    const int64_t o = first_output + column;
    if (position >= positions || o >= call.group_outputs()) return;
    const unsigned width = static_cast<unsigned>(call.out_width);
    const int64_t channel = group * call.group_outputs() + o;
    if (bias) sum += C(bias(channel));
    out(n, channel, static_cast<unsigned>(position) / width, static_cast<unsigned>(position) % width) = T(sum);
  });
}

template <class T>
void convolve(const Convolution& call, const View<const T, 4>& input, const View<const T, 4>& offset,
              const View<const T, 4>& weight, const View<const T, 1>& bias, const View<const T, 4>& mask, bool tf32,
              const View<T, 4>& out, Stream stream) {
  const bool eights = call.group_channels() % vector_width == 0 && call.offset_group_channels() % vector_width == 0;
  const int64_t copied = copy_size(input);
  const Workspace<T> room(copied > 0 ? copied : 1);
  const Sampler<T> sampler{call, pixels_of(input, eights, copied > 0 ? room.data : nullptr, stream), offset, mask};
  // Wide tiles, so that most layers sample once; narrow ones where half of that would be idle, and for doubles, of
  // which wide ones do not fit the shared memory.
  constexpr int widest = sizeof(T) == 8 ? 64 : 256;
  const int columns = call.group_outputs() > 128 ? widest : 64;
  const ForwardGrid grid{divide_up(call.group_outputs(), columns), divide_up(call.positions(), tile_rows)};
  const int64_t laid_out = call.groups * grid.across * columns * steps_of(call) * tile_steps;
  const Workspace<T> weights(laid_out > 0 ? laid_out : 1);
  if (laid_out > 0) {
    lay_out_weights<T><<<blocks_for(laid_out, tile_threads), tile_threads, 0, stream>>>(
        call, weight, grid.across * columns, weights.data);
  }
  const unsigned blocks = grid_of(call.images * call.groups * grid.tiles * grid.across);
  with_tf32<T>(tf32, [&](auto rounded) {
    if (columns == widest) {
      convolve_tiles<T, widest, rounded.value>
          <<<blocks, tile_threads, 0, stream>>>(sampler, weights.data, grid, bias, out);
    } else {
      convolve_tiles<T, 64, rounded.value><<<blocks, tile_threads, 0, stream>>>(sampler, weights.data, grid, bias, out);
    }
  });
}

}  // namespace
