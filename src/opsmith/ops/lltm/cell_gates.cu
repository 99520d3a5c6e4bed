// The pointwise parts of an LLTM step on a GPU as they stand beside PyTorch's products: with the bias, and its
// gradient.
//
// Beside lltm_gates they save passes over the gates. PyTorch's product without a bias is the faster one for float, so
// the bias is added here; and its gradient is summed up beside the copies that follow the first product, which leave
// most of the GPU idle.
#include <opsmith/early_launch.h>
#include <opsmith/lanes.h>

#include <algorithm>

#include "cell_gpu.h"
#include "cell_vectors.cuh"
#include "device.cuh"
#include "pointwise.h"

namespace opsmith::ops::lltm {
namespace {

// Adjacent units of a thread: 16 bytes of float and double, 8 of a 16-bit type, as in lltm_gates.
template <class T>
constexpr int vector_width = sizeof(T) == 8 ? 2 : 4;

// ---------------------------------------------------------------------------------------------------------- forward

template <int width, class T>
__global__ void __launch_bounds__(threads) finish(Forward<T> step) {
  using C = compute_t<T>;
  const int64_t batch = step.cell.size[0], state = step.cell.size[1];
  const int64_t unit = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * width;
  wait_for_earlier_kernels();
  if (unit >= state) return;
  C bias[3][width];
#pragma unroll
  for (int g = 0; g < 3; ++g) {
#pragma unroll
    for (int k = 0; k < width; ++k) bias[g][k] = step.bias(g * state + unit + k);
  }
#pragma unroll 1
  for (int64_t row = blockIdx.y * static_cast<int64_t>(blockDim.y) + threadIdx.y; row < batch;
       row += static_cast<int64_t>(gridDim.y) * blockDim.y) {
    Vector<T, width> gate[3], hidden, cell;
#pragma unroll
    for (int g = 0; g < 3; ++g) gate[g] = load_adjacent<width>(&step.gates(row, g * state + unit));
    const Vector<T, width> old = load_adjacent<width>(&step.cell(row, unit));
#pragma unroll
    for (int k = 0; k < width; ++k) {
      C sum[3];
#pragma unroll
      for (int g = 0; g < 3; ++g) {
        sum[g] = gate[g].item[k] + bias[g][k];
        gate[g].item[k] = static_cast<T>(sum[g]);
      }
      const LltmState<C> next = lltm_step<C>(sum[0], sum[1], sum[2], old.item[k]);
      hidden.item[k] = static_cast<T>(next.hidden);
      cell.item[k] = static_cast<T>(next.cell);
    }
#pragma unroll
    for (int g = 0; g < 3; ++g) store_adjacent(&step.gates(row, g * state + unit), gate[g]);
    store_adjacent(&step.new_hidden(row, unit), hidden);
    store_adjacent(&step.new_cell(row, unit), cell);
  }
}

// --------------------------------------------------------------------------------------------------------- backward

template <class T>
__device__ int64_t longer_half(const Backward<T>& step) {
  const int64_t state = step.hidden.size[1], inputs = step.input.size[1];
  return state > inputs ? state : inputs;
}

// The gradients of gates and cell, and [hidden, input] as one matrix beside them.
template <int width, class T>
__global__ void __launch_bounds__(threads) start(Backward<T> step, View<T, 2> grad_gates, View<T, 2> joined) {
  using C = compute_t<T>;
  const int64_t state = step.hidden.size[1], inputs = step.input.size[1];
  wait_for_earlier_kernels();
  for_each_vector<width>(
      joined.size[0], longer_half(step), blockIdx.x, blockIdx.y, gridDim.y, [&](int64_t row, int64_t unit) {
        const bool has_input = unit < inputs;
        Vector<T, width> input{};
        if (has_input) input = load_adjacent<width>(&step.input(row, unit));
        if (unit >= state) {
          store_adjacent(&joined(row, state + unit), input);
          return;
        }
        const auto hidden = load_adjacent<width>(&step.hidden(row, unit));
        const auto from_hidden = load_adjacent<width>(&step.grad_new_hidden(row, unit));
        const auto from_cell = load_adjacent<width>(&step.grad_new_cell(row, unit));
        Vector<T, width> gate[3], to_cell;
#pragma unroll
        for (int g = 0; g < 3; ++g) gate[g] = load_adjacent<width>(&step.gates(row, g * state + unit));
        const auto next = load_adjacent<width>(&step.new_cell(row, unit));
        store_adjacent(&joined(row, unit), hidden);
        if (has_input) store_adjacent(&joined(row, state + unit), input);
#pragma unroll
        for (int k = 0; k < width; ++k) {
          const LltmGradient<C> gradient = lltm_step_backward<C>(
              from_hidden.item[k], from_cell.item[k], gate[0].item[k], gate[1].item[k], gate[2].item[k], next.item[k]);
          gate[0].item[k] = static_cast<T>(gradient.i);
          gate[1].item[k] = static_cast<T>(gradient.o);
          gate[2].item[k] = static_cast<T>(gradient.c);
          to_cell.item[k] = static_cast<T>(gradient.cell);
        }
#pragma unroll
        for (int g = 0; g < 3; ++g) store_adjacent(&grad_gates(row, g * state + unit), gate[g]);
        store_adjacent(&step.grad_cell(row, unit), to_cell);
      });
}

// The bias's gradient: a block owns a strip of gates, `across` vectors wide, and one part of the batch. A thread's sums
// stay in registers until the end, and are then added up in one order: over the lanes of a warp, then over the warps.
constexpr int across = 8;
constexpr int down = threads / across;

template <int width, class T>
__device__ void sum_columns(View<const T, 2> grad_gates, View<T, 1> grad_bias, View<compute_t<T>, 2> partial,
                            int64_t strip, int64_t part, int64_t parts) {
  using C = compute_t<T>;
  constexpr int warps = threads / lanes, columns = across * width;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int64_t batch = grad_gates.size[0], gates = grad_gates.size[1];
  const int64_t gate = strip * columns + thread % across * width;
  const int64_t rows = (batch + parts - 1) / parts, first = part * rows;
  const int64_t end = first + rows < batch ? first + rows : batch;
  C sum[width] = {};
  if (gate < gates) {
#pragma unroll 8
    for (int64_t row = first + thread / across; row < end; row += down) {
      const auto from = load_adjacent<width>(&grad_gates(row, gate));
#pragma unroll
      for (int k = 0; k < width; ++k) sum[k] += static_cast<C>(from.item[k]);
    }
  }
#pragma unroll
  for (int mask = across; mask < lanes; mask *= 2) {
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] += shuffle_xor(sum[k], mask);
  }
  __shared__ C of_warp[warps][columns];
  const int lane = thread % lanes;
  if (lane < across) {
#pragma unroll
    for (int k = 0; k < width; ++k) of_warp[thread / lanes][lane * width + k] = sum[k];
  }
  __syncthreads();
  const int64_t own = strip * columns + thread;
  if (thread >= columns || own >= gates) return;
  C total = 0;
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) total += of_warp[warp][thread];
  if (parts == 1) {
    grad_bias(own) = static_cast<T>(total);
  } else {
    partial(part, own) = total;
  }
}

// The gradients of hidden and input, which are one matrix as they come from their product; and the bias's beside them.
// The first blocks are for the bias: a strip's take longest.
template <int width, class T>
__global__ void __launch_bounds__(threads)
    finish_products(Backward<T> step, View<const T, 2> grad_gates, View<const T, 2> grad_joined,
                    View<compute_t<T>, 2> partial, unsigned strips, unsigned parts, dim3 copying) {
  wait_for_earlier_kernels();
  if (blockIdx.x < strips * parts) {
    sum_columns<width>(grad_gates, step.grad_bias, partial, blockIdx.x / parts, blockIdx.x % parts, parts);
    return;
  }
  const unsigned block = blockIdx.x - strips * parts;
  const int64_t state = step.hidden.size[1], inputs = step.input.size[1];
  for_each_vector<width>(
      grad_joined.size[0], longer_half(step), block % copying.x, block / copying.x, copying.y,
      [&](int64_t row, int64_t column) {
        if (column < state) {
          store_adjacent(&step.grad_hidden(row, column), load_adjacent<width>(&grad_joined(row, column)));
        }
        if (column < inputs) {
          store_adjacent(&step.grad_input(row, column), load_adjacent<width>(&grad_joined(row, state + column)));
        }
      });
}

template <class T>
__global__ void __launch_bounds__(threads) add_parts(View<compute_t<T>, 2> partial, View<T, 1> grad_bias) {
  wait_for_earlier_kernels();
  const int64_t gate = blockIdx.x * static_cast<int64_t>(threads) + threadIdx.x;
  if (gate >= grad_bias.size[0]) return;
  compute_t<T> sum = 0;
#pragma unroll 8
  for (int64_t part = 0; part < partial.size[0]; ++part) sum += partial(part, gate);
  grad_bias(gate) = static_cast<T>(sum);
}

template <int width, class T>
void launch_finish(const Forward<T>& step, Stream stream) {
  const Grid grid(step.cell.size[0], divide_up(step.cell.size[1], width));
  launch_early<finish<width, T>>("lltm_cell", grid.blocks, grid.of_block, 0, stream, step);
}

template <class T>
Grid grid_of_halves(const Backward<T>& step, int width) {
  const int64_t longer = std::max(step.hidden.size[1], step.input.size[1]);
  return {step.hidden.size[0], divide_up(longer, width)};
}

template <int width, class T>
void launch_start(const Backward<T>& step, View<T, 2> grad_gates, View<T, 2> joined, Stream stream) {
  const Grid grid = grid_of_halves(step, width);
  launch_early<start<width, T>>("lltm_cell_backward", grid.blocks, grid.of_block, 0, stream, step, grad_gates, joined);
}

template <int width, class T>
void launch_finish_products(const Backward<T>& step, View<const T, 2> grad_gates, View<const T, 2> grad_joined,
                            View<compute_t<T>, 2> partial, Stream stream) {
  const Grid grid = grid_of_halves(step, width);
  const unsigned strips = static_cast<unsigned>(divide_up(grad_gates.size[1], across * width));
  const unsigned parts = static_cast<unsigned>(std::max<int64_t>(partial.size[0], 1));
  launch_early<finish_products<width, T>>("lltm_cell_backward", strips * parts + grid.blocks.x * grid.blocks.y,
                                          grid.of_block, 0, stream, step, grad_gates, grad_joined, partial, strips,
                                          parts, grid.blocks);
  if (parts == 1) return;
  launch_early<add_parts<T>>("lltm_cell_backward", blocks_for(grad_gates.size[1], threads), threads, 0, stream, partial,
                             step.grad_bias);
}

}  // namespace

template <class T>
void finish_forward(const Forward<T>& step, void* stream) {
  constexpr int width = vector_width<T>;
  if (step.cell.numel() == 0) return;
  if (allow_vectors<width, T>(step.gates, step.cell, step.new_hidden, step.new_cell)) {
    launch_finish<width>(step, static_cast<Stream>(stream));
  } else {
    launch_finish<1>(step, static_cast<Stream>(stream));
  }
}

int64_t bias_parts(int64_t batch, int64_t state) {
  // Sixteen rows for each thread. More parts pay for the launch that adds them up as long as some multiprocessors are
  // idle.
  constexpr int64_t rows = 16 * down, blocks = 128, most = 128;
  const int64_t strips = divide_up(3 * state, across * 4);
  const int64_t useful = std::min(divide_up(batch, rows), divide_up(blocks, std::max<int64_t>(strips, 1)));
  return std::clamp<int64_t>(useful, 1, most);
}

template <class T>
void start_backward(const Backward<T>& step, View<T, 2> grad_gates, View<T, 2> joined, void* stream) {
  constexpr int width = vector_width<T>;
  if (joined.size[0] == 0) return;
  const Stream on = static_cast<Stream>(stream);
  if (allow_vectors<width, T>(step.grad_new_hidden, step.grad_new_cell, step.gates, step.new_cell, grad_gates,
                              step.grad_cell, step.hidden, step.input, joined)) {
    launch_start<width>(step, grad_gates, joined, on);
  } else {
    launch_start<1>(step, grad_gates, joined, on);
  }
}

template <class T>
void finish_backward(const Backward<T>& step, View<const T, 2> grad_gates, View<const T, 2> grad_joined,
                     View<compute_t<T>, 2> partial, void* stream) {
  constexpr int width = 16 / sizeof(T);
  const Stream on = static_cast<Stream>(stream);
  if (allow_vectors<width, T>(grad_gates, grad_joined, step.grad_hidden, step.grad_input)) {
    launch_finish_products<width>(step, grad_gates, grad_joined, partial, on);
  } else {
    launch_finish_products<1>(step, grad_gates, grad_joined, partial, on);
  }
}

template void finish_forward(const Forward<float>&, void*);
template void finish_forward(const Forward<double>&, void*);
template void finish_forward(const Forward<float16>&, void*);
template void finish_forward(const Forward<bfloat16>&, void*);
template void start_backward(const Backward<float>&, View<float, 2>, View<float, 2>, void*);
template void start_backward(const Backward<double>&, View<double, 2>, View<double, 2>, void*);
template void start_backward(const Backward<float16>&, View<float16, 2>, View<float16, 2>, void*);
template void start_backward(const Backward<bfloat16>&, View<bfloat16, 2>, View<bfloat16, 2>, void*);
template void finish_backward(const Backward<float>&, View<const float, 2>, View<const float, 2>, View<float, 2>,
                              void*);
template void finish_backward(const Backward<double>&, View<const double, 2>, View<const double, 2>, View<double, 2>,
                              void*);
template void finish_backward(const Backward<float16>&, View<const float16, 2>, View<const float16, 2>, View<float, 2>,
                              void*);
template void finish_backward(const Backward<bfloat16>&, View<const bfloat16, 2>, View<const bfloat16, 2>,
                              View<float, 2>, void*);

}  // namespace opsmith::ops::lltm
