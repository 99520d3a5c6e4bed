// The backward on a GPU. The gradient of the samples is made for some images, or some positions of one, at a time: 2^24
// numbers, which the second-level cache nearly holds, whatever the batch is. From there offsets, masks and pixels get
// theirs. The weights' is an implicit product with samples that are made again.
#pragma once

#include "backward_points.h"

namespace {

// One block for each output: threads sum up what they pass, and then two by two.
template <class T>
__global__ void __launch_bounds__(tile_threads) sum_outputs(View<const T, 4> grad_out, View<T, 1> grad_bias) {
  using C = compute_t<T>;
  __shared__ C sums[tile_threads];
  const int64_t width = grad_out.size[3], positions = grad_out.size[2] * width;
  C sum = 0;
  for (int64_t n = 0; n < grad_out.size[0]; ++n) {
    for (int64_t p = threadIdx.x; p < positions; p += tile_threads) {
      sum += C(grad_out(n, blockIdx.x, p / width, p % width));
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = tile_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) grad_bias(blockIdx.x) = T(sums[0]);
}

// Gives f one piece after the other.
template <class F>
void for_each_piece(const Convolution& call, const F& f) {
  constexpr int64_t most = int64_t{1} << 24;
  const int64_t row = call.groups * steps_of(call) * tile_steps, positions = call.positions();
  if (row * positions <= most) {
    const int64_t together = most / (row * positions);
    for (int64_t n = 0; n < call.images; n += together) {
      f(Piece{n, together < call.images - n ? together : call.images - n, 0, static_cast<int>(positions)});
    }
    return;
  }
  const int64_t part = divide_up(most / row > 0 ? most / row : 1, tile_rows) * tile_rows;
  for (int64_t n = 0; n < call.images; ++n) {
    for (int64_t first = 0; first < positions; first += part) {
      f(Piece{n, 1, static_cast<int>(first), static_cast<int>(part < positions - first ? part : positions - first)});
    }
  }
}

// From the gradient of the samples to those of pixels, offsets and masks.
template <class T>
void differentiate_samples(const Sampler<T>& sampler, const Outer<T>& outer, const View<const T, 4>& weight, bool tf32,
                           const Gradients<T>& to, Stream stream) {
  using C = compute_t<T>;
  constexpr int columns = product_columns<T>;
  constexpr int share = 512 / sizeof(C);
  const Convolution& call = sampler.call;
  const int64_t places = steps_of(call) * tile_steps, across = divide_up(places, columns);
  const int64_t row = divide_up(call.group_outputs(), tile_steps) * tile_steps;
  const int64_t turned = call.groups * across * columns * row;
  const Workspace<T> weights(turned);
  turn_weights<T><<<blocks_for(turned, tile_threads), tile_threads, 0, stream>>>(call, weight, across * columns, row,
                                                                                 weights.data);
  int64_t largest = 0, largest_images = 0;
  for_each_piece(call, [&](const Piece& piece) {
    if (piece.images * piece.positions > largest) largest = piece.images * piece.positions;
    if (piece.images > largest_images) largest_images = piece.images;
  });
  const bool is_divided = largest < call.positions();
  const int64_t points = largest * call.offset_groups * call.taps();
  const Workspace<C> grad_samples(largest * call.groups * places);
  const Workspace<Entry<C>> entries(points);
  const Workspace<Bounds> bounds(points / tile_threads + largest_images * call.offset_groups);
  const Workspace<C> total(is_divided && to.input.numel() > 0 ? call.height * call.width * call.channels : 1);
  for_each_piece(call, [&](const Piece& piece) {
    const int64_t tiles = divide_up(piece.positions, tile_rows), owners = piece.images * call.offset_groups;
    with_tf32<T>(tf32, [&](auto rounded) {
      multiply_weights<T, rounded.value>
          <<<grid_of(piece.images * tiles * call.groups * across), tile_threads, 0, stream>>>(
              call, outer, weights.data, row, across, piece, grad_samples.data);
    });
    const int64_t blocks = divide_up(piece.positions * call.taps(), tile_threads);
    find_entries<T>
        <<<grid_of(owners * blocks), tile_threads, 0, stream>>>(sampler, piece, blocks, entries.data, bounds.data);
    if (to.offset.numel() > 0 || to.mask.numel() > 0) {
      const int64_t all = owners * piece.positions * call.taps();
      sum_points<T><<<grid_of(divide_up(all, tile_threads / lanes)), tile_threads, 0, stream>>>(
          sampler, piece, entries.data, grad_samples.data, to.offset, to.mask);
    }
    if (to.input.numel() > 0) {
      const PixelGrid grid{divide_up(call.width, square), divide_up(call.height, square),
                           divide_up(call.offset_group_channels(), share)};
      gather_pixels<T><<<grid_of(grid.across * grid.down * owners * grid.parts), tile_threads, 0, stream>>>(
          call, piece, grid, blocks, entries.data, bounds.data, grad_samples.data, total.data, to.input);
    }
  });
}

// Gradients without a term.
template <class T>
__global__ void __launch_bounds__(tile_threads) clear(View<T, 4> to) {
  const int64_t count = to.numel();
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    const int64_t x = n % to.size[3], y = n / to.size[3] % to.size[2], c = n / to.size[3] / to.size[2] % to.size[1];
    to(n / to.size[3] / to.size[2] / to.size[1], c, y, x) = T(0.0f);
  }
}

template <class T>
void differentiate(const Convolution& call, const View<const T, 4>& grad_out, const View<const T, 4>& input,
                   const View<const T, 4>& offset, const View<const T, 4>& weight, const View<const T, 4>& mask,
                   bool tf32, const Gradients<T>& to, Stream stream) {
  const bool needs_samples = to.input.numel() + to.offset.numel() + to.mask.numel() > 0;
  const int64_t sizes[] = {call.images, call.positions(), call.taps(), call.channels, call.outputs};
  bool is_empty = false;
  for (const int64_t size : sizes) is_empty = is_empty || size == 0;
  if (is_empty) {
    const View<T, 4> all[] = {to.input, to.offset, to.weight, to.mask};
    for (const View<T, 4>& view : all) {
      if (view.numel() > 0) clear<T><<<blocks_for(view.numel(), tile_threads), tile_threads, 0, stream>>>(view);
    }
  } else if (needs_samples || to.weight.numel() > 0) {
    const int64_t copied = copy_size(input), outer_copied = copy_size(grad_out);
    const Workspace<T> room(copied > 0 ? copied : 1), outer_room(outer_copied > 0 ? outer_copied : 1);
    const bool eights = call.group_channels() % vector_width == 0 && call.offset_group_channels() % vector_width == 0;
    const Sampler<T> sampler{call, pixels_of(input, eights, copied > 0 ? room.data : nullptr, stream), offset, mask};
    const Outer<T> outer{pixels_of(grad_out, call.group_outputs() % vector_width == 0,
                                   outer_copied > 0 ? outer_room.data : nullptr, stream),
                         call.out_width, call.group_outputs()};
    if (needs_samples) differentiate_samples(sampler, outer, weight, tf32, to, stream);
    if (to.weight.numel() > 0) differentiate_weights(sampler, outer, tf32, to.weight, stream);
  }
  if (to.bias.numel() > 0) sum_outputs<T><<<grid_of(to.bias.size[0]), tile_threads, 0, stream>>>(grad_out, to.bias);
}

}  // namespace
