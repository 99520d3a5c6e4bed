// The backward on a GPU, for some images, or some positions of one, at a time, whatever the batch is. The gradient of
// their samples is a product; pixels gather theirs from it; the points take what is their offsets' and masks', and
// leave samples in its place; these make a second product, which is the gradient of the weights.
#pragma once

#include "backward_points.h"

namespace {

// One block for each output: threads sum up what they pass, and then two by two.
template <class T>
__global__ void __launch_bounds__(tile_threads) sum_outputs(View<const T, 4> grad_out, View<T, 1> grad_bias) {
  using C = compute_t<T>;
  __shared__ C sums[tile_threads];
  const int64_t width = grad_out.size[3], positions = grad_out.size[2] * width;
  // Rows that follow one another need no division.
  const bool is_flat = grad_out.stride[2] == width * grad_out.stride[3];
  C sum = 0;
  for (int64_t n = 0; n < grad_out.size[0]; ++n) {
    const T* const from = &grad_out(n, blockIdx.x, 0, 0);
#pragma unroll 4
    for (int64_t p = threadIdx.x; p < positions; p += tile_threads) {
      sum += C(is_flat ? from[p * grad_out.stride[3]] : grad_out(n, blockIdx.x, p / width, p % width));
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

// How a batch is divided. No piece has more than 2^25 samples, unless 128 positions alone have.
struct Pieces {
  int64_t images;  // together, or 1 where an image is divided
  int positions;

  explicit Pieces(const Convolution& call) {
    constexpr int64_t most = int64_t{1} << 25;
    const int64_t row = call.taps() * call.channels, rows = most / row;
    if (rows >= call.positions()) {
      const int64_t count = divide_up(call.images, rows / call.positions());
      images = divide_up(call.images, count);
      positions = static_cast<int>(call.positions());
    } else {
      images = 1;
      positions = static_cast<int>(rows > block_lines ? rows / block_lines * block_lines : block_lines);
      if (positions > call.positions()) positions = static_cast<int>(call.positions());
    }
  }

  template <class F>
  void for_each(const Convolution& call, const F& f) const {
    for (int64_t n = 0; n < call.images; n += images) {
      for (int64_t first = 0; first < call.positions(); first += positions) {
        const int64_t left = call.positions() - first;
        f(Piece{n, images < call.images - n ? images : call.images - n, static_cast<int>(first),
                static_cast<int>(positions < left ? positions : left)});
      }
    }
  }
};

// Gradients [image][position][output], side by side.
template <class T>
struct Outer {
  const T* data;
  bool has_vectors;

  Matrix<T> rows(const Convolution& call, const Piece& piece) const {
    return {data + (piece.image * call.positions() + piece.first) * call.outputs,
            piece.rows(),
            call.group_outputs(),
            call.outputs,
            call.group_outputs(),
            0,
            has_vectors};
  }
};

// How many numbers a copy of the gradient as `Outer` has; none where it is so already.
template <class T>
int64_t outer_size(const View<const T, 4>& grad_out) {
  const int64_t outputs = grad_out.size[1], width = grad_out.size[3];
  const bool is_dense = (grad_out.stride[1] == 1 || outputs == 1) && grad_out.stride[3] == outputs &&
                        grad_out.stride[2] == width * outputs &&
                        grad_out.stride[0] == grad_out.size[2] * width * outputs;
  return is_dense ? 0 : grad_out.numel();
}

// The gradients of all but the bias.
template <class T, bool tf32>
void differentiate_samples(const Sampler<T>& sampler, const Outer<T>& outer, const View<const T, 4>& weight,
                           const Gradients<T>& to, Stream stream) {
  using C = compute_t<T>;
  const Convolution& call = sampler.call;
  const Pieces pieces(call);
  const bool needs_points = to.offset.numel() + to.mask.numel() > 0, needs_weights = to.weight.numel() > 0;
  const bool needs_input = to.input.numel() > 0, needs_gradients = needs_points || needs_input;
  const int64_t columns = call.taps() * call.group_channels(), outputs = call.group_outputs();
  const int64_t down = divide_up(columns, block_lines), across = divide_up(outputs, block_lines);
  const int64_t rows = pieces.images * pieces.positions, row = divide_up(outputs, run_length) * run_length;

  const Workspace<T> samples(rows * call.taps() * call.channels);
  const int64_t turned = call.groups * down * block_lines * row;
  const Workspace<T> weights(needs_gradients ? turned : 1);
  if (needs_gradients) {
    turn_weights<T, tf32><<<blocks_for(turned, tile_threads), tile_threads, 0, stream>>>(
        call, weight, down * block_lines, row, weights.data);
  }

  const int64_t high = call.height + 1, wide = call.width + 1;
  const int64_t cells = needs_input ? pieces.images * call.offset_groups * high * wide : 0;
  const int64_t points = needs_input ? rows * call.offset_groups * call.taps() : 0;
  const Workspace<int> numbers(2 * cells + 1 + points);
  const Workspace<Entry<C>> entries(points > 0 ? points : 1);
  const bool is_divided = pieces.positions < call.positions();
  const Workspace<C> total(is_divided && needs_input ? call.height * call.width * call.channels : 1);

  // As many parts as keep two blocks a multiprocessor of a large GPU busy, but none without a step.
  WeightGrid grid{across, down, 264 / (across * down * call.groups)};
  const int64_t units = divide_up(rows, step_bytes / static_cast<int64_t>(sizeof(T)));
  if (grid.parts > units) grid.parts = units;
  if (grid.parts < 1) grid.parts = 1;
  const Workspace<C> sums(needs_weights ? grid.parts * call.groups * columns * outputs : 1);

  bool is_first = true;
  pieces.for_each(call, [&](const Piece& piece) {
    const int64_t owners = piece.images * call.offset_groups;
    const Matrix<T> gradients = outer.rows(call, piece);
    if (needs_gradients) {
      const Matrix<T> factors{weights.data, down * block_lines, outputs, row, outputs, 0, true};
      launch_product<SampleProduct<T, tf32>>(multiply_weights<T, tf32>,
                                             divide_up(piece.rows(), block_lines) * call.groups * down, stream, call,
                                             gradients, factors, down, samples.data);
    }
    if (needs_input) {
      const int64_t used = owners * high * wide;
      const Lists<C> lists{numbers.data,
                           numbers.data + cells + 1,
                           high,
                           wide,
                           used,
                           piece.rows() * call.offset_groups * call.taps(),
                           numbers.data + used,
                           numbers.data + 2 * cells + 1,
                           entries.data};
      list_points(sampler, piece, lists, stream);
      constexpr int share = lanes * Channels<T>::width;
      const PixelGrid pixels{divide_up(call.width, square), divide_up(call.height, square),
                             divide_up(call.offset_group_channels(), share)};
      const bool has_vectors = call.offset_group_channels() % run_length == 0;
      gather_pixels<T><<<grid_of(pixels.across * pixels.down * owners * pixels.parts), point_threads, 0, stream>>>(
          call, piece, pixels, lists, has_vectors, samples.data, total.data, to.input);
    }
    if (needs_points || needs_weights) {
      const int64_t last_row = (piece.first + piece.positions - 1) / call.out_width;
      const int64_t wide_patches = divide_up(call.out_width, patch_width);
      const int64_t patches = divide_up(last_row - piece.first / call.out_width + 1, patch_height);
      visit_points<T><<<grid_of(wide_patches * patches * owners), point_threads, 0, stream>>>(
          sampler, piece, PointTasks{needs_points, needs_weights}, wide_patches, patches, samples.data, to.offset,
          to.mask);
    }
    if (needs_weights) {
      const Matrix<T> made{samples.data,
                           piece.rows(),
                           columns,
                           call.taps() * call.channels,
                           call.group_channels(),
                           call.channels,
                           call.group_channels() % run_length == 0};
      launch_product<WeightProduct<T, tf32>>(multiply_samples<T, tf32>, across * down * call.groups * grid.parts,
                                             stream, call, made, gradients, grid, is_first, sums.data);
    }
    is_first = false;
  });
  if (needs_weights) {
    sum_weights<T><<<blocks_for(call.groups * columns * outputs, tile_threads), tile_threads, 0, stream>>>(
        call, sums.data, grid.parts, to.weight);
  }
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
  const int64_t sizes[] = {call.images, call.positions(), call.taps(), call.channels, call.outputs};
  bool is_empty = false;
  for (const int64_t size : sizes) is_empty = is_empty || size == 0;
  if (is_empty) {
    const View<T, 4> all[] = {to.input, to.offset, to.weight, to.mask};
    for (const View<T, 4>& view : all) {
      if (view.numel() > 0) clear<T><<<blocks_for(view.numel(), tile_threads), tile_threads, 0, stream>>>(view);
    }
  } else if (to.input.numel() + to.offset.numel() + to.mask.numel() + to.weight.numel() > 0) {
    const int64_t copied = copy_size(input), outer_copied = outer_size(grad_out);
    const Workspace<T> room(copied > 0 ? copied : 1), outer_room(outer_copied > 0 ? outer_copied : 1);
    const bool eights = call.group_channels() % vector_width == 0 && call.offset_group_channels() % vector_width == 0;
    const Sampler<T> sampler{call, pixels_of(input, eights, copied > 0 ? room.data : nullptr, stream), offset, mask};
    const Pixels<T> gradients = pixels_of(grad_out, call.group_outputs() % vector_width == 0,
                                          outer_copied > 0 ? outer_room.data : nullptr, stream);
    const Outer<T> outer{gradients.data, gradients.has_vectors};
    with_tf32<T>(tf32,
                 [&](auto rounded) { differentiate_samples<T, rounded.value>(sampler, outer, weight, to, stream); });
  }
  if (to.bias.numel() > 0) sum_outputs<T><<<grid_of(to.bias.size[0]), tile_threads, 0, stream>>>(grad_out, to.bias);
}

}  // namespace
