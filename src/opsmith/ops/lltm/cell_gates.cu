// The pointwise parts of an LLTM step on a GPU as they stand beside PyTorch's products: with the bias, and its
// gradient.
//
// Beside lltm_gates they save passes over the gates. PyTorch's product without a bias is the faster one for float, so
// the bias is added here; and the bias's gradient is summed up where the gates' gradients are made.
#include <algorithm>

#include "cell_gpu.h"
#include "device.h"
#include "pointwise.h"

using namespace opsmith;

namespace {

constexpr int threads = 256;

// Adjacent units of a thread: 16 bytes of float and double, 8 of a 16-bit type, as in lltm_gates.
template <class T>
constexpr int vector_width = sizeof(T) == 8 ? 2 : 4;

// ---------------------------------------------------------------------------------------------------------- forward

template <int width, class T>
__global__ void __launch_bounds__(threads) finish(lltm::Forward<T> step) {
  using C = compute_t<T>;
  const int64_t batch = step.cell.size[0], state = step.cell.size[1];
  const int64_t unit = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * width;
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

// Which half of a row of [hidden, input] a column is in, and where it lies there.
template <class T>
__device__ T* of_halves(const View<T, 2>& hidden, const View<T, 2>& input, int64_t row, int64_t column) {
  const int64_t state = hidden.size[1];
  return column < state ? &hidden(row, column) : &input(row, column - state);
}

// Calls f(row, column) for every `width`th column of a matrix. `block` counts from 0 to `blocks`.
template <int width, class F>
__device__ void for_each_vector(int64_t rows, int64_t columns, int64_t block, int64_t blocks, const F& f) {
  const int64_t across = columns / width;
#pragma unroll 1
  for (int64_t index = block * blockDim.x + threadIdx.x; index < rows * across; index += blocks * blockDim.x) {
    const int64_t row = index / across;
    f(row, (index - row * across) * width);
  }
}

// A block owns a strip of units, `across` vectors wide, and one part of the batch. So the sum over its rows stays in
// registers until the end, and is then formed in one order: over the lanes of a warp, then over the warps. Narrow
// strips and many rows at once, because what this waits for is memory: at 256 rows a thread has one element.
constexpr int start_threads = 512;
constexpr int across = 2;
constexpr int down = start_threads / across;

template <int width, class T>
__global__ void __launch_bounds__(start_threads)
    start(lltm::Backward<T> step, View<T, 2> grad_gates, View<T, 2> joined, View<compute_t<T>, 2> partial,
          int64_t rows_per_part, unsigned strips) {
  using C = compute_t<T>;
  const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1];
  if (blockIdx.x >= strips) {  // the others join hidden and input
    const int64_t block = (blockIdx.x - strips) * int64_t{gridDim.y} + blockIdx.y;
    const int64_t blocks = (gridDim.x - strips) * int64_t{gridDim.y};
    for_each_vector<width>(batch, joined.size[1], block, blocks, [&](int64_t row, int64_t column) {
      store_adjacent(&joined(row, column), load_adjacent<width>(of_halves(step.hidden, step.input, row, column)));
    });
    return;
  }
  const int64_t unit = (blockIdx.x * static_cast<int64_t>(across) + threadIdx.x % across) * width;
  const int64_t first = blockIdx.y * rows_per_part;
  const int64_t end = first + rows_per_part < batch ? first + rows_per_part : batch;
  C sum[3][width] = {};
  if (unit < state) {
#pragma unroll 1
    for (int64_t row = first + threadIdx.x / across; row < end; row += down) {
      const auto from_hidden = load_adjacent<width>(&step.grad_new_hidden(row, unit));
      const auto from_cell = load_adjacent<width>(&step.grad_new_cell(row, unit));
      Vector<T, width> gate[3], to_cell;
#pragma unroll
      for (int g = 0; g < 3; ++g) gate[g] = load_adjacent<width>(&step.gates(row, g * state + unit));
      const auto next = load_adjacent<width>(&step.new_cell(row, unit));
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const LltmGradient<C> gradient = lltm_step_backward<C>(from_hidden.item[k], from_cell.item[k], gate[0].item[k],
                                                               gate[1].item[k], gate[2].item[k], next.item[k]);
        sum[0][k] += gradient.i;
        sum[1][k] += gradient.o;
        sum[2][k] += gradient.c;
        gate[0].item[k] = static_cast<T>(gradient.i);
        gate[1].item[k] = static_cast<T>(gradient.o);
        gate[2].item[k] = static_cast<T>(gradient.c);
        to_cell.item[k] = static_cast<T>(gradient.cell);
      }
#pragma unroll
      for (int g = 0; g < 3; ++g) store_adjacent(&grad_gates(row, g * state + unit), gate[g]);
      store_adjacent(&step.grad_cell(row, unit), to_cell);
    }
  }
#pragma unroll
  for (int mask = across; mask < lanes; mask *= 2) {
#pragma unroll
    for (int g = 0; g < 3; ++g) {
#pragma unroll
      for (int k = 0; k < width; ++k) sum[g][k] += shuffle_xor(sum[g][k], mask);
    }
  }
  constexpr int warps = start_threads / lanes, units = across * width;
  __shared__ C of_warp[warps][3][units];
  const int lane = threadIdx.x % lanes;
  if (lane < across) {
#pragma unroll
    for (int g = 0; g < 3; ++g) {
#pragma unroll
      for (int k = 0; k < width; ++k) of_warp[threadIdx.x / lanes][g][lane * width + k] = sum[g][k];
    }
  }
  __syncthreads();
  const int g = threadIdx.x / units;
  const int64_t own = blockIdx.x * static_cast<int64_t>(units) + threadIdx.x % units;
  if (g >= 3 || own >= state) return;
  C total = 0;
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) total += of_warp[warp][g][threadIdx.x % units];
  if (gridDim.y == 1) {
    step.grad_bias(g * state + own) = static_cast<T>(total);
  } else {
    partial(blockIdx.y, g * state + own) = total;
  }
}

template <class T>
__global__ void __launch_bounds__(threads) add_parts(View<const compute_t<T>, 2> partial, View<T, 1> grad_bias) {
  const int64_t gate = blockIdx.x * static_cast<int64_t>(threads) + threadIdx.x;
  if (gate >= grad_bias.size[0]) return;
  compute_t<T> sum = 0;
#pragma unroll 8
  for (int64_t part = 0; part < partial.size[0]; ++part) sum += partial(part, gate);
  grad_bias(gate) = static_cast<T>(sum);
}

template <int width, class T>
__global__ void __launch_bounds__(threads) split(View<const T, 2> joined, View<T, 2> hidden, View<T, 2> input) {
  for_each_vector<width>(joined.size[0], joined.size[1], blockIdx.x, gridDim.x, [&](int64_t row, int64_t column) {
    store_adjacent(of_halves(hidden, input, row, column), load_adjacent<width>(&joined(row, column)));
  });
}

// Whether each of the groups of `width` columns that a thread takes starts at a multiple of its size.
template <int width, class T, class... Matrix>
bool allow_vectors(const Matrix&... matrix) {
  return ((matrix.size[1] % width == 0 && matrix.stride[1] == 1 && matrix.stride[0] % width == 0 &&
           is_aligned(matrix.data, width * sizeof(T))) &&
          ...);
}

template <int width, class T>
void launch_finish(const lltm::Forward<T>& step, Stream stream) {
  // As many threads along a row as it has vectors, up to a whole block; the rest of the block takes further rows.
  const int64_t batch = step.cell.size[0], groups = lltm::divide_up(step.cell.size[1], width);
  int x = lanes;
  while (x < threads && x < groups) x *= 2;
  const unsigned y = blocks_for(batch, threads / x);
  const dim3 blocks(static_cast<unsigned>(lltm::divide_up(groups, x)), y < 65535 ? y : 65535);
  finish<width><<<blocks, dim3(x, threads / x), 0, stream>>>(step);
  check_launch("lltm_cell");
}

// Blocks for copying, about four rounds of the loop each: enough to fill a GPU, few enough not to wait for.
unsigned copying_blocks(int64_t vectors) { return std::clamp<unsigned>(blocks_for(vectors, 4 * threads), 1, 1024); }

template <int width, class T>
void launch_start(const lltm::Backward<T>& step, View<T, 2> grad_gates, View<T, 2> joined,
                  View<compute_t<T>, 2> partial, Stream stream) {
  const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1];
  const int64_t parts = lltm::bias_parts(batch, state);
  const unsigned strips = static_cast<unsigned>(lltm::divide_up(state, across * width));
  const unsigned copying = static_cast<unsigned>(lltm::divide_up(copying_blocks(joined.numel() / width), parts));
  start<width><<<dim3(strips + copying, static_cast<unsigned>(parts)), start_threads, 0, stream>>>(
      step, grad_gates, joined, partial, lltm::divide_up(batch, parts), strips);
  check_launch("lltm_cell_backward");
  if (parts == 1) return;
  add_parts<T><<<blocks_for(3 * state, threads), threads, 0, stream>>>(partial, step.grad_bias);
  check_launch("lltm_cell_backward");
}

template <int width, class T>
void launch_split(const lltm::Backward<T>& step, View<const T, 2> joined, Stream stream) {
  split<width>
      <<<copying_blocks(joined.numel() / width), threads, 0, stream>>>(joined, step.grad_hidden, step.grad_input);
  check_launch("lltm_cell_backward");
}

}  // namespace

template <class T>
void lltm::finish_forward(const Forward<T>& step, void* stream) {
  constexpr int width = vector_width<T>;
  if (step.cell.numel() == 0) return;
  if (allow_vectors<width, T>(step.gates, step.cell, step.new_hidden, step.new_cell)) {
    launch_finish<width>(step, static_cast<Stream>(stream));
  } else {
    launch_finish<1>(step, static_cast<Stream>(stream));
  }
}

int64_t lltm::bias_parts(int64_t batch, int64_t state) {
  // Two rows for each thread. More parts pay for the launch that adds them up as long as some multiprocessors are idle.
  constexpr int64_t rows = 2 * down, blocks = 128, most = 128;
  const int64_t strips = divide_up(state, across * 4);
  const int64_t useful = std::min(divide_up(batch, rows), divide_up(blocks, std::max<int64_t>(strips, 1)));
  return std::clamp<int64_t>(useful, 1, most);
}

template <class T>
void lltm::start_backward(const Backward<T>& step, View<T, 2> grad_gates, View<T, 2> joined,
                          View<compute_t<T>, 2> partial, void* stream) {
  constexpr int width = vector_width<T>;
  const Stream on = static_cast<Stream>(stream);
  if (allow_vectors<width, T>(step.grad_new_hidden, step.grad_new_cell, step.gates, step.new_cell, grad_gates,
                              step.grad_cell, step.hidden, step.input, joined)) {
    launch_start<width>(step, grad_gates, joined, partial, on);
  } else {
    launch_start<1>(step, grad_gates, joined, partial, on);
  }
}

template <class T>
void lltm::finish_backward(const Backward<T>& step, View<const T, 2> grad_joined, void* stream) {
  constexpr int width = 16 / sizeof(T);
  if (grad_joined.numel() == 0) return;
  if (allow_vectors<width, T>(grad_joined, step.grad_hidden, step.grad_input)) {
    launch_split<width>(step, grad_joined, static_cast<Stream>(stream));
  } else {
    launch_split<1>(step, grad_joined, static_cast<Stream>(stream));
  }
}

template void lltm::finish_forward(const Forward<float>&, void*);
template void lltm::finish_forward(const Forward<double>&, void*);
template void lltm::finish_forward(const Forward<float16>&, void*);
template void lltm::finish_forward(const Forward<bfloat16>&, void*);
template void lltm::start_backward(const Backward<float>&, View<float, 2>, View<float, 2>, View<float, 2>, void*);
template void lltm::start_backward(const Backward<double>&, View<double, 2>, View<double, 2>, View<double, 2>, void*);
template void lltm::start_backward(const Backward<float16>&, View<float16, 2>, View<float16, 2>, View<float, 2>, void*);
template void lltm::start_backward(const Backward<bfloat16>&, View<bfloat16, 2>, View<bfloat16, 2>, View<float, 2>,
                                   void*);
template void lltm::finish_backward(const Backward<float>&, View<const float, 2>, void*);
template void lltm::finish_backward(const Backward<double>&, View<const double, 2>, void*);
template void lltm::finish_backward(const Backward<float16>&, View<const float16, 2>, void*);
template void lltm::finish_backward(const Backward<bfloat16>&, View<const bfloat16, 2>, void*);
