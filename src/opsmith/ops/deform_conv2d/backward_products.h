// The two products of the backward on a GPU: the gradient of the samples, which is that of the output times the
// weights, and the gradient of the weights, which is that of the output times the samples.
#pragma once

#include "gpu_samples.h"

namespace {

// Doubles have narrower tiles, because wide ones do not fit the shared memory.
template <class T>
constexpr int product_columns = sizeof(T) == 8 ? 64 : 128;

// What is worked on at once: some images, or some positions of one where its samples alone are too many.
struct Piece {
  int64_t image, images;
  int first, positions;
};

// The gradient of the output as pixels, eight outputs of a group at a time.
template <class T>
struct Outer {
  Pixels<T> pixels;
  int64_t out_width, group_outputs;

  // Zero beyond the group's last output.
  __device__ void load(int64_t n, int position, int64_t group, int64_t o, T (&to)[vector_width]) const {
    const unsigned width = static_cast<unsigned>(out_width);
    const T* const from =
        pixels.at(n, static_cast<unsigned>(position) / width, static_cast<unsigned>(position) % width) +
        group * group_outputs + o;
    if (pixels.has_vectors && o < group_outputs) return Sampler<T>::load_vector(from, to);
    for (int k = 0; k < vector_width; ++k) to[k] = o + k < group_outputs ? from[k] : T(0.0f);
  }
};

// The weights as [group][step, channel][output], the former filled up to `rows` and the latter to a multiple of 32.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    turn_weights(Convolution call, View<const T, 4> weight, int64_t rows, int64_t row, T* to) {
  const int64_t count = call.groups * rows * row;
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    const int64_t o = n % row, place = n / row % rows, group = n / row / rows, step = place / tile_steps;
    const int64_t tap = step % call.taps(), channel = step / call.taps() * tile_steps + place % tile_steps;
    const bool is_there = o < call.group_outputs() && channel < call.group_channels();
    to[n] =
        is_there ? weight(group * call.group_outputs() + o, channel, tap / call.taps_x, tap % call.taps_x) : T(0.0f);
  }
}

// grad_samples[image, position of the piece][group][step, channel], without the mask.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads, 1)
    multiply_weights(Convolution call, Outer<T> outer, const T* weights, int64_t row, int64_t across, Piece piece,
                     compute_t<T>* grad_samples) {
  constexpr int columns = product_columns<T>;
  using Product = TileProduct<T, columns, false, tf32>;
  __shared__ typename Product::Rows gradients;
  __shared__ typename Product::Columns factors;
  const int64_t places = steps_of(call) * tile_steps, first_place = blockIdx.x % across * columns;
  const int64_t group = blockIdx.x / across % call.groups, tiles = (piece.positions + tile_rows - 1) / tile_rows;
  const int first = static_cast<int>(blockIdx.x / across / call.groups % tiles) * tile_rows;
  const int64_t image = blockIdx.x / across / call.groups / tiles;
  const T* const own = weights + (group * across * columns + first_place) * row;
  Product product;
  for (int64_t o = 0; o < row; o += tile_steps) {
    gradients.fill([&](int line, int column, T(&to)[vector_width]) {
      const int position = first + line < piece.positions ? first + line : piece.positions - 1;
      outer.load(piece.image + image, piece.first + position, group, o + column, to);
    });
    factors.fill([&](int line, int column, T(&to)[vector_width]) {
      Sampler<T>::load_vector(own + line * row + o + column, to);
    });
    __syncthreads();
    product.add(gradients, factors);
    __syncthreads();
  }
  product.for_each([&](int line, int column, compute_t<T> sum) {
    if (first + line >= piece.positions || first_place + column >= places) return;
    grad_samples[((image * piece.positions + first + line) * call.groups + group) * places + first_place + column] =
        sum;
  });
}

// How the sum over images and positions is divided: units of 32 positions of an image, which are shared out to `parts`.
struct WeightGrid {
  int64_t across, down, parts;
};

// parts[part][group][step, channel][output]: the product of a part of the positions.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads, 1)
    multiply_samples(Sampler<T> sampler, Outer<T> outer, WeightGrid grid, compute_t<T>* parts) {
  constexpr int columns = product_columns<T>;
  using Product = TileProduct<T, columns, true, tf32>;
  __shared__ typename Product::Rows samples;
  __shared__ typename Product::Columns gradients;
  const Convolution& call = sampler.call;
  const int64_t first_output = blockIdx.x % grid.across * columns;
  const int64_t first_place = blockIdx.x / grid.across % grid.down * tile_rows;
  const int64_t group = blockIdx.x / grid.across / grid.down % call.groups;
  const int64_t part = blockIdx.x / grid.across / grid.down / call.groups;
  const int64_t places = steps_of(call) * tile_steps;
  const int positions = static_cast<int>(call.positions());
  const int64_t of_image = (positions + tile_steps - 1) / tile_steps, units = call.images * of_image;
  Product product;
  for (int64_t unit = units * part / grid.parts; unit < units * (part + 1) / grid.parts; ++unit) {
    const int64_t n = unit / of_image;
    const int first = static_cast<int>(unit % of_image) * tile_steps;
    samples.fill([&](int line, int column, T(&to)[vector_width]) {
      const int64_t place = first_place + column, step = place / tile_steps;
      if (first + line < positions && place < places) {
        const int64_t channel = step / call.taps() * tile_steps + place % tile_steps;
        return sampler.load(n, first + line, group, channel, static_cast<int>(step % call.taps()), to);
      }
      for (int k = 0; k < vector_width; ++k) to[k] = T(0.0f);
    });
    gradients.fill([&](int line, int column, T(&to)[vector_width]) {
      if (first + line < positions) return outer.load(n, first + line, group, first_output + column, to);
      for (int k = 0; k < vector_width; ++k) to[k] = T(0.0f);
    });
    __syncthreads();
    product.add(samples, gradients);
    __syncthreads();
  }
  product.for_each([&](int line, int column, compute_t<T> sum) {
    const int64_t place = first_place + line, o = first_output + column;
    if (place >= places || o >= call.group_outputs()) return;
    parts[((part * call.groups + group) * places + place) * call.group_outputs() + o] = sum;
  });
}

// Adds up the parts in their order.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    sum_weights(Convolution call, const compute_t<T>* parts, int64_t count, View<T, 4> grad_weight) {
  const int64_t places = steps_of(call) * tile_steps, outputs = call.group_outputs(), channels = call.group_channels();
  const int64_t size = call.groups * places * outputs;
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < size; n += int64_t{gridDim.x} * tile_threads) {
    const int64_t o = n % outputs, place = n / outputs % places, group = n / outputs / places;
    const int64_t step = place / tile_steps, tap = step % call.taps();
    const int64_t channel = step / call.taps() * tile_steps + place % tile_steps;
    if (channel >= channels) continue;
    compute_t<T> sum = 0;
    for (int64_t part = 0; part < count; ++part) sum += parts[part * size + n];
    grad_weight(group * outputs + o, channel, tap / call.taps_x, tap % call.taps_x) = T(sum);
  }
}

template <class T>
void differentiate_weights(const Sampler<T>& sampler, const Outer<T>& outer, bool tf32, const View<T, 4>& grad_weight,
                           Stream stream) {
  const Convolution& call = sampler.call;
  const int64_t places = steps_of(call) * tile_steps;
  const int64_t units = call.images * divide_up(call.positions(), tile_steps);
  WeightGrid grid{divide_up(call.group_outputs(), product_columns<T>), divide_up(places, tile_rows), 1};
  // Enough blocks to fill a GPU four times, but no more parts than units, nor than memory for 2^26 numbers.
  const int64_t tiles = grid.across * grid.down * call.groups, size = call.groups * places * call.group_outputs();
  const int64_t wanted = divide_up(528, tiles), most = (int64_t{1} << 26) / size;
  grid.parts = wanted < most ? wanted : most;
  if (grid.parts > units) grid.parts = units;
  if (grid.parts < 1) grid.parts = 1;
  const Workspace<compute_t<T>> parts(grid.parts * size);
  with_tf32<T>(tf32, [&](auto rounded) {
    multiply_samples<T, rounded.value>
        <<<grid_of(tiles * grid.parts), tile_threads, 0, stream>>>(sampler, outer, grid, parts.data);
  });
  sum_weights<T>
      <<<blocks_for(size, tile_threads), tile_threads, 0, stream>>>(call, parts.data, grid.parts, grad_weight);
}

}  // namespace
