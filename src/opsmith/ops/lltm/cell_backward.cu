// All gradients of an LLTM step on a GPU in one launch, for batches and states that are too small for PyTorch's
// products.
//
// Some blocks compute the gradient of [hidden, input], the others those of the weight, the bias and the cell. Both need
// the gates' gradients, which are computed where they are needed and never stored: that repeats the activations, but a
// second launch would cost more. Every sum is in one order, so results are the same in every run.
#include <algorithm>

#include "cell.h"
#include "device.h"
#include "lltm.h"

using namespace opsmith;

namespace {

constexpr int threads = 256;
constexpr int warps = threads / lanes;

// The gradients of one element's gates.
template <class T>
__device__ LltmGradient<compute_t<T>> gate_gradients(const lltm::Backward<T>& step, int64_t row, int64_t unit) {
  using C = compute_t<T>;
  const int64_t state = step.new_cell.size[1];
  return lltm_step_backward<C>(step.grad_new_hidden(row, unit), step.grad_new_cell(row, unit), step.gates(row, unit),
                               step.gates(row, state + unit), step.gates(row, 2 * state + unit),
                               step.new_cell(row, unit));
}

// The gradient of [hidden, input]: `rows` rows and 32 bytes of columns to a block, which is what one access to the
// weight moves at least. The sum over the gates is spread over the block.
template <class T>
struct JoinedTile {
  static constexpr int rows = 4;
  static constexpr int columns = 32 / sizeof(T);
  static constexpr int groups = threads / columns;
  static constexpr int ahead = 12;  // loads of the weight that a thread has on their way at once

  using C = compute_t<T>;
  using Gradients = Vector<C, rows>;
  static int64_t shared_bytes(int64_t state) {
    return (3 * state * rows + warps * columns * rows) * static_cast<int64_t>(sizeof(C));
  }

  static __device__ void run(const lltm::Backward<T>& step, int64_t first_row, int64_t first_column, char* shared) {
    const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1], total = step.weight.size[1];
    const int64_t gates = 3 * state;
    const int64_t column = first_column + threadIdx.x % columns;
    const int group = threadIdx.x / columns;
    T weight[ahead];
    const auto load = [&](int64_t gate) {
#pragma unroll
      for (int k = 0; k < ahead; ++k, gate += groups) {
        weight[k] = gate < gates && column < total ? step.weight(gate, column) : T(0.0f);
      }
    };
    load(group);  // needs nothing of what comes next, which hides its latency

    Gradients* const gradients = reinterpret_cast<Gradients*>(shared);
    for (int64_t index = threadIdx.x; index < state * rows; index += threads) {
      const int64_t unit = index % state;
      const int r = index / state;
      LltmGradient<C> gradient = {};
      if (first_row + r < batch) gradient = gate_gradients(step, first_row + r, unit);
      gradients[unit].item[r] = gradient.i;
      gradients[state + unit].item[r] = gradient.o;
      gradients[2 * state + unit].item[r] = gradient.c;
    }
    __syncthreads();

    C sum[rows] = {};
    for (int64_t gate = group; gate < gates; gate += ahead * groups) {
      if (gate != group) load(gate);
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (gate + k * groups < gates) {
          const Gradients factor = gradients[gate + k * groups];
          const C w = weight[k];
#pragma unroll
          for (int r = 0; r < rows; ++r) sum[r] += factor.item[r] * w;
        }
      }
    }
    // First over the groups within a warp, then over the warps.
#pragma unroll
    for (int mask = columns; mask < lanes; mask *= 2) {
#pragma unroll
      for (int r = 0; r < rows; ++r) sum[r] += shuffle_xor(sum[r], mask);
    }
    C* const partial = reinterpret_cast<C*>(gradients + gates);
    const int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    if (lane < columns) {
#pragma unroll
      for (int r = 0; r < rows; ++r) partial[(warp * rows + r) * columns + lane] = sum[r];
    }
    __syncthreads();
    const int r = threadIdx.x / columns;
    if (r >= rows || first_row + r >= batch || column >= total) return;
    C result = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) result += partial[(w * rows + r) * columns + threadIdx.x % columns];
    T& to = column < state ? step.grad_hidden(first_row + r, column) : step.grad_input(first_row + r, column - state);
    to = static_cast<T>(result);
  }
};

// The gradients of the weight, the bias and the cell: the gates of `units` units times a column for each thread. The
// sum over the batch is one thread's, in slices of what fits into shared memory.
template <class T>
struct WeightTile {
  static constexpr int units = 2;
  static constexpr int gates = 3 * units;
  static constexpr int slice = 64;

  using C = compute_t<T>;
  static constexpr int64_t shared_bytes = slice * gates * sizeof(C);

  static __device__ void run(const lltm::Backward<T>& step, int64_t first_unit, int64_t first_column, char* shared) {
    const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1], total = step.weight.size[1];
    const int64_t column = first_column + threadIdx.x;
    const bool is_hidden = column < state;
    const T* const joined = is_hidden ? &step.hidden(0, column) : &step.input(0, column - state);
    const int64_t next_row = is_hidden ? step.hidden.stride[0] : step.input.stride[0];
    C* const gradients = reinterpret_cast<C*>(shared);
    C sum[gates] = {}, bias = 0;
    for (int64_t first = 0; first < batch; first += slice) {
      const int rows = batch - first < slice ? batch - first : slice;
      if (first > 0) __syncthreads();
      for (int index = threadIdx.x; index < rows * units; index += threads) {
        const int64_t row = first + index / units, unit = first_unit + index % units;
        LltmGradient<C> gradient = {};
        if (unit < state) gradient = gate_gradients(step, row, unit);
        C* const to = gradients + index / units * gates + index % units;
        to[0] = gradient.i;
        to[units] = gradient.o;
        to[2 * units] = gradient.c;
        if (unit < state && first_column == 0) step.grad_cell(row, unit) = static_cast<T>(gradient.cell);
      }
      __syncthreads();
      if (column < total) {
#pragma unroll 8
        for (int r = 0; r < rows; ++r) {
          const C x = joined[(first + r) * next_row];
#pragma unroll
          for (int g = 0; g < gates; ++g) sum[g] += gradients[r * gates + g] * x;
        }
      }
      if (first_column == 0 && threadIdx.x < gates) {
        for (int r = 0; r < rows; ++r) bias += gradients[r * gates + threadIdx.x];
      }
    }
    const auto gate_of = [&](int g) { return g / units * state + first_unit + g % units; };
    if (column < total) {
#pragma unroll
      for (int g = 0; g < gates; ++g) {
        if (first_unit + g % units < state) step.grad_weight(gate_of(g), column) = static_cast<T>(sum[g]);
      }
    }
    const int g = threadIdx.x;
    if (first_column == 0 && g < gates && first_unit + g % units < state) {
      step.grad_bias(gate_of(g)) = static_cast<T>(bias);
    }
  }
};

// Blocks [0, joined_blocks) have a tile of [hidden, input]'s gradient, the rest one of the weight's; tiles that lie
// side by side have numbers that follow each other.
template <class T>
__global__ void __launch_bounds__(threads)
    backward(lltm::Backward<T> step, unsigned joined_blocks, unsigned joined_across, unsigned weight_across) {
  extern __shared__ __align__(16) char shared[];
  if (blockIdx.x < joined_blocks) {
    JoinedTile<T>::run(step, blockIdx.x / joined_across * int64_t{JoinedTile<T>::rows},
                       blockIdx.x % joined_across * int64_t{JoinedTile<T>::columns}, shared);
  } else {
    const unsigned block = blockIdx.x - joined_blocks;
    WeightTile<T>::run(step, block / weight_across * int64_t{WeightTile<T>::units},
                       block % weight_across * int64_t{threads}, shared);
  }
}

}  // namespace

template <class T>
void lltm::fused_backward(const Backward<T>& step, void* stream) {
  const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  if (state == 0) return;
  const int64_t joined_across = lltm::divide_up(columns, JoinedTile<T>::columns);
  const int64_t joined_blocks = lltm::divide_up(batch, JoinedTile<T>::rows) * joined_across;
  const int64_t weight_across = lltm::divide_up(columns, threads);
  const int64_t weight_blocks = lltm::divide_up(state, WeightTile<T>::units) * weight_across;
  const int64_t shared = std::max(JoinedTile<T>::shared_bytes(state), WeightTile<T>::shared_bytes);
  backward<<<joined_blocks + weight_blocks, threads, shared, static_cast<Stream>(stream)>>>(
      step, joined_blocks, joined_across, weight_across);
  check_launch("lltm_cell_backward");
}

template void lltm::fused_backward(const Backward<float>&, void*);
template void lltm::fused_backward(const Backward<double>&, void*);
template void lltm::fused_backward(const Backward<float16>&, void*);
template void lltm::fused_backward(const Backward<bfloat16>&, void*);
