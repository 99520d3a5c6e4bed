// The two products of the backward on a GPU: the gradient of the samples, which is that of the output times the
// weights, and the gradient of the weights, which is that of the output times the samples.
//
// Samples and their gradients lie as [position of the piece][tap][channel], so those of a point are side by side. The
// columns of a group's products are [tap][channel of the group].
#pragma once

#include "matrix_product.h"
#include "point_lists.h"

namespace {

extern __shared__ __align__(128) char product_room[];

// Launches a product with the shared memory that it needs. More than 48 KB have to be asked for.
template <class Product, class Kernel, class... Arguments>
void launch_product(Kernel* kernel, int64_t blocks, Stream stream, const Arguments&... arguments) {
  constexpr int bytes = Product::shared_bytes;
#if !defined(__HIPCC__)
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
#endif
  kernel<<<grid_of(blocks), tile_threads, bytes, stream>>>(arguments...);
}

// Doubles need all registers.
template <class T>
constexpr int blocks_at_once = sizeof(T) == 8 ? 1 : 2;

template <class T, bool tf32>
using SampleProduct = BlockProduct<T, false, tf32>;
template <class T, bool tf32>
using WeightProduct = BlockProduct<T, true, tf32>;

// The weights as [group][column, filled up to `columns`][output, filled up to `row`], columns of 128 in the order in
// which the product takes them.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads)
    turn_weights(Convolution call, View<const T, 4> weight, int64_t columns, int64_t row, T* to) {
  const int64_t count = call.groups * columns * row, channels = call.group_channels();
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    const int64_t o = n % row, column = n / row % columns, group = n / row / columns;
    const int64_t tap = column / channels, channel = column % channels;
    const bool is_there = o < call.group_outputs() && tap < call.taps();
    const int64_t line =
        column / block_lines * block_lines + SampleProduct<T, tf32>::line_of(static_cast<int>(column % block_lines));
    to[(group * columns + line) * row + o] =
        is_there ? weight(group * call.group_outputs() + o, channel, tap / call.taps_x, tap % call.taps_x) : T(0.0f);
  }
}

// Where a group's column is among the samples of a position.
OPSMITH_HOST_DEVICE int64_t place_of(const Convolution& call, int64_t group, int64_t column) {
  const int64_t channels = call.group_channels();
  return column / channels * call.channels + group * channels + column % channels;
}

// Eight elements at a multiple of 16 bytes.
template <class T>
__device__ void store_run(const Vector<T, run_length>& from, T* to) {
  constexpr int width = copy_bytes / sizeof(T);
#pragma unroll
  for (int v = 0; v < run_length; v += width) {
    Vector<T, width> part;
#pragma unroll
    for (int k = 0; k < width; ++k) part.item[k] = from.item[v + k];
    *reinterpret_cast<Vector<T, width>*>(to + v) = part;
  }
}

// grad_samples[position of the piece][tap][channel], without the mask, of gradients [position][output]. Rounded to T,
// as the samples of the forward are.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads, blocks_at_once<T>)
    multiply_weights(Convolution call, Matrix<T> outer, Matrix<T> weights, int64_t across, T* grad_samples) {
  using Product = SampleProduct<T, tf32>;
  const int64_t group = blockIdx.x / across % call.groups, down = blockIdx.x / across / call.groups;
  const int64_t first_column = blockIdx.x % across * block_lines, first_row = down * block_lines;
  outer.data += group * call.group_outputs();
  weights.data += group * across * block_lines * weights.stride;
  Product product;
  product.add({outer, first_row}, {weights, first_column}, 0, call.group_outputs(), product_room);
  const int64_t columns = call.taps() * call.group_channels(), row_size = call.taps() * call.channels;
  product.for_each([&](int row, int column, const compute_t<T>(&sums)[run_length]) {
    const int64_t n = first_row + row, first = first_column + column;
    if (n >= outer.rows) return;
    T* const to = grad_samples + n * row_size;
    if (call.channels % run_length == 0 && call.group_channels() % run_length == 0) {
      if (first >= columns) return;
      Vector<T, run_length> rounded;
#pragma unroll
      for (int k = 0; k < run_length; ++k) rounded.item[k] = T(sums[k]);
      store_run(rounded, to + place_of(call, group, first));
    } else {
#pragma unroll
      for (int k = 0; k < run_length; ++k) {
        if (first + k < columns) to[place_of(call, group, first + k)] = T(sums[k]);
      }
    }
  });
}

// How the sum over positions is divided: `parts` times, each by whole steps.
struct WeightGrid {
  int64_t across, down, parts;  // tiles of outputs and of columns
};

// sums[part][group][column][output]: adds the product of a part of the positions, or begins with it.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads, blocks_at_once<T>)
    multiply_samples(Convolution call, Matrix<T> samples, Matrix<T> outer, WeightGrid grid, bool is_first,
                     compute_t<T>* sums) {
  using Product = WeightProduct<T, tf32>;
  constexpr int steps = Product::Side::steps;
  const int64_t first_output = blockIdx.x % grid.across * block_lines;
  const int64_t first_column = blockIdx.x / grid.across % grid.down * block_lines;
  const int64_t group = blockIdx.x / grid.across / grid.down % call.groups;
  const int64_t part = blockIdx.x / grid.across / grid.down / call.groups;
  const int64_t units = (outer.rows + steps - 1) / steps, columns = samples.columns, outputs = call.group_outputs();
  samples.data += group * call.group_channels();
  outer.data += group * outputs;
  Product product;
  product.add({samples, first_column}, {outer, first_output}, units * part / grid.parts * steps,
              units * (part + 1) / grid.parts * steps, product_room);
  compute_t<T>* const own = sums + (part * call.groups + group) * columns * outputs;
  product.for_each([&](int row, int column, const compute_t<T>(&found)[run_length]) {
    if (first_column + row >= columns) return;
#pragma unroll
    for (int k = 0; k < run_length; ++k) {
      const int64_t o = first_output + Product::line_of(column + k);
      if (o >= outputs) continue;
      compute_t<T>& sum = own[(first_column + row) * outputs + o];
      sum = is_first ? found[k] : sum + found[k];
    }
  });
}

// Adds up the parts in their order.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    sum_weights(Convolution call, const compute_t<T>* sums, int64_t parts, View<T, 4> grad_weight) {
  const int64_t outputs = call.group_outputs(), channels = call.group_channels();
  const int64_t columns = call.taps() * channels, size = call.groups * columns * outputs;
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < size; n += int64_t{gridDim.x} * tile_threads) {
    const int64_t o = n % outputs, column = n / outputs % columns, group = n / outputs / columns;
    const int64_t tap = column / channels;
    compute_t<T> sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += sums[part * size + n];
    grad_weight(group * outputs + o, column % channels, tap / call.taps_x, tap % call.taps_x) = T(sum);
  }
}

}  // namespace
