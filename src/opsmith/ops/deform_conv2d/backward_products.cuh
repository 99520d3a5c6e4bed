// The two products of the backward on a GPU: the gradient of the samples, which is that of the output times the
// weights, and the gradient of the weights, which is that of the output times the samples.
//
// Samples and their gradients lie as [position of the piece][tap][channel], so those of a point are side by side. The
// columns of a group's products are [tap][channel of the group].
#pragma once

#include "matrix_product.cuh"
#include "point_lists.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

extern __shared__ __align__(128) char product_room[];

// Launches a product with the shared memory that it needs. More than 48 KB have to be asked for.
template <class Product, class Kernel, class... Arguments>
void launch_product(Kernel* kernel, int64_t blocks, Stream stream, const Arguments&... arguments) {
  constexpr int bytes = Product::shared_bytes;
#if !defined(__HIPCC__)
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    fail("the gradient of deform_conv2d() takes ", bytes >> 10, " KB of shared memory for a block of a GPU's threads, ",
         "which GPUs of compute capability 8.0 and later have");
  }
#endif
  kernel<<<grid_of(blocks), tile_threads, bytes, stream>>>(arguments...);
}

template <class T, bool tf32>
using SampleProduct = BlockProduct<T, false, tf32>;
template <class T, bool tf32>
using WeightProduct = BlockProduct<T, true, tf32>;

// The weights as [group][column, filled up to `columns`][output, filled up to `row`], the columns of a block in the
// order in which the product takes them, and rounded with `tf32`.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads)
    turn_weights(Convolution call, View<const T, 4> weight, int64_t columns, int64_t row, T* to) {
  using Product = SampleProduct<T, tf32>;
  const int64_t count = call.groups * columns * row, channels = call.group_channels();
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    const int64_t o = n % row, column = n / row % columns, group = n / row / columns;
    const int64_t tap = column / channels, channel = column % channels, inner = column % Product::columns;
    const bool is_there = o < call.group_outputs() && tap < call.taps();
    const int64_t line = column - inner + Product::line_of(static_cast<int>(inner));
    T value(0.0f);
    if (is_there) value = weight(group * call.group_outputs() + o, channel, tap / call.taps_x, tap % call.taps_x);
    if constexpr (tf32) value = gpu::round_to_tf32(value);
    to[(group * columns + line) * row + o] = value;
  }
}

// grad_samples[position of the piece][tap][channel], without the mask, of gradients [position][output]. Rounded to T,
// as the samples of the forward are.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads, 1)
    multiply_weights(Convolution call, Matrix<T> outer, Matrix<T> weights, int across, T* grad_samples) {
  using Product = SampleProduct<T, tf32>;
  const int groups = static_cast<int>(call.groups), channels = static_cast<int>(call.group_channels());
  const int rest = static_cast<int>(blockIdx.x) / across, group = rest % groups;
  const int first_row = rest / groups * Product::rows;
  const int first_column = static_cast<int>(blockIdx.x) % across * Product::columns;
  outer.data += group * call.group_outputs();
  weights.data += group * int64_t{weights.rows} * weights.stride;
  Product product;
  product.add({outer, first_row, 0}, {weights, first_column, 0}, (outer.columns + Product::steps - 1) / Product::steps,
              product_room);
  const int columns = static_cast<int>(call.taps()) * channels;
  const int64_t row_size = call.taps() * call.channels;
  T* const own = grad_samples + first_row * row_size + group * channels;
  const auto place = [&](int column) { return column / channels * call.channels + column % channels; };
  if (channels % run_length<T> == 0) {
    product.for_each([&](int column) { return first_column + column < columns ? place(first_column + column) : -1; },
                     [&](int row, int64_t at, const compute_t<T>(&sums)[run_length<T>]) {
                       if (first_row + row >= outer.rows || at < 0) return;
                       *reinterpret_cast<Chunk*>(own + row * row_size + at) = narrow<T, false>(sums);
                     });
  } else {
    product.for_each([&](int column) { return first_column + column; },
                     [&](int row, int column, const compute_t<T>(&sums)[run_length<T>]) {
                       if (first_row + row >= outer.rows) return;
#pragma unroll
                       for (int k = 0; k < run_length<T>; ++k) {
                         if (column + k < columns) own[row * row_size + place(column + k)] = T(sums[k]);
                       }
                     });
  }
}

// How the sum over positions is divided: `parts` times, each by whole steps.
struct WeightGrid {
  int across, down, parts;  // tiles of columns and of outputs
};

// sums[part][group][output][column], the latter two filled up to whole tiles: adds the product of a part of the
// positions, or begins with it.
template <class T, bool tf32>
__global__ void __launch_bounds__(tile_threads, 1)
    multiply_samples(Convolution call, Matrix<T> outer, Matrix<T> samples, WeightGrid grid, bool is_first,
                     compute_t<T>* sums) {
  using Product = WeightProduct<T, tf32>;
  const int block = static_cast<int>(blockIdx.x), groups = static_cast<int>(call.groups);
  const int column = block % grid.across, row = block / grid.across % grid.down;
  const int group = block / grid.across / grid.down % groups, part = block / grid.across / grid.down / groups;
  const int units = (outer.rows + Product::steps - 1) / Product::steps;
  const int begin = static_cast<int>(int64_t{units} * part / grid.parts);
  const int end = static_cast<int>(int64_t{units} * (part + 1) / grid.parts);
  outer.data += group * call.group_outputs();
  samples.data += group * call.group_channels();
  Product product;
  product.add({outer, row * Product::rows, begin * Product::steps},
              {samples, column * Product::columns, begin * Product::steps}, end - begin, product_room);
  const int64_t row_size = int64_t{grid.across} * Product::columns;
  compute_t<T>* const own = sums + ((int64_t{part} * groups + group) * grid.down + row) * Product::rows * row_size +
                            column * Product::columns;
  product.for_each([](int first) { return first; },
                   [&](int line, int first, const compute_t<T>(&found)[run_length<T>]) {
#pragma unroll
                     for (int k = 0; k < run_length<T>; ++k) {
                       compute_t<T>* const sum = own + line * row_size + Product::line_of(first + k);
                       // Nobody else adds to this sum, and an atomic addition is not waited for.
                       if (is_first) {
                         *sum = found[k];
                       } else {
                         atomicAdd(sum, found[k]);
                       }
                     }
                   });
}

// Adds up the parts in their order.
template <class T>
__global__ void __launch_bounds__(tile_threads) sum_weights(Convolution call, const compute_t<T>* sums, int parts,
                                                            int64_t rows, int64_t row_size, View<T, 4> grad_weight) {
  const int channels = static_cast<int>(call.group_channels()), taps = static_cast<int>(call.taps());
  const int column = static_cast<int>(blockIdx.x) * tile_threads + threadIdx.x;
  if (column >= channels * taps) return;
  const int tap = column / channels;
  for (int64_t o = blockIdx.y; o < call.outputs; o += gridDim.y) {
    const int64_t group = o / call.group_outputs(), line = group * rows + o % call.group_outputs();
    compute_t<T> sum = 0;
#pragma unroll 4
    for (int part = 0; part < parts; ++part) {
      sum += sums[(part * call.groups * rows + line) * row_size + column];
    }
    grad_weight(o, column % channels, tap / call.taps_x, tap % call.taps_x) = T(sum);
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
