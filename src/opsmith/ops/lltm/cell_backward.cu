// All gradients of an LLTM step on a GPU in one launch, for batches and states that are too small for PyTorch's
// products.
//
// Some blocks compute the gradient of [hidden, input], the others those of weight, bias and cell. Both kinds need the
// gates' gradients, and compute those that they need: that repeats the activations, but a second launch would cost
// more. Every sum is formed in one order, so results are the same in every run.
#include <algorithm>

#include "cell.h"
#include "device.h"
#include "lltm.h"

using namespace opsmith;

namespace {

constexpr int threads = 256;
constexpr int warps = threads / lanes;

// The rows of a tile of [hidden, input]'s gradient, and the units of a tile of the weight's.
constexpr int depth = 4;

// Columns of [hidden, input] in a tile: the 32 bytes of the weight that memory moves at least.
template <class T>
constexpr int tile_columns = 32 / sizeof(T);

// The gradients of the gates that a block needs, [gate][place][4]: for a tile of [hidden, input] the places are units
// and the four are rows, for a tile of the weight it is the other way round.
template <class C>
using Four = Vector<C, depth>;

// The gradients of four rows of [hidden, input] in a few columns. The sum over the gates is spread over the block.
template <class T>
__device__ void multiply_joined(const lltm::Backward<T>& step, int row, int column, const Four<compute_t<T>>* gradients,
                                compute_t<T> (*partial)[depth][tile_columns<T>]) {
  using C = compute_t<T>;
  constexpr int across = tile_columns<T>, groups = threads / across;
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  const int lane = threadIdx.x % lanes, own_column = column + threadIdx.x % across;
  C sum[depth] = {};
  // Columns past the end repeat the last one.
  const T* const weight = &step.weight(0, min(own_column, columns - 1));
#pragma unroll 4
  for (int gate = threadIdx.x / across; gate < 3 * state; gate += groups) {
    const C w = weight[gate * step.weight.stride[0]];
    const Four<C> factor = gradients[gate];
#pragma unroll
    for (int r = 0; r < depth; ++r) sum[r] += factor.item[r] * w;
  }
  // First over the groups within a warp, then over the warps.
#pragma unroll
  for (int r = 0; r < depth; ++r) {
#pragma unroll
    for (int mask = across; mask < lanes; mask *= 2) sum[r] += shuffle_xor(sum[r], mask);
    if (lane < across) partial[threadIdx.x / lanes][r][lane] = sum[r];
  }
  __syncthreads();
  const int r = threadIdx.x / across;
  if (r >= depth || row + r >= batch || own_column >= columns) return;
  C result = 0;
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) result += partial[warp][r][threadIdx.x % across];
  T* const to =
      own_column < state ? &step.grad_hidden(row + r, own_column) : &step.grad_input(row + r, own_column - state);
  *to = static_cast<T>(result);
}

// The gradients of the weight's rows for four units, a thread to a column, and of their biases: a bias is the weight of
// an input that is always 1.
template <class T>
__device__ void multiply_weight(const lltm::Backward<T>& step, int unit, const Four<compute_t<T>>* gradients) {
  using C = compute_t<T>;
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
#pragma unroll 1
  for (int column = threadIdx.x; column <= columns; column += threads) {
    const bool is_hidden = column < state, is_bias = column == columns;
    const View<const T, 2> joined = is_hidden ? step.hidden : step.input;
    C sum[3][depth] = {};
#pragma unroll 4
    for (int row = 0; row < batch; ++row) {
      const C x = is_bias ? C(1) : static_cast<C>(joined(row, is_hidden ? column : column - state));
#pragma unroll
      for (int g = 0; g < 3; ++g) {
        const Four<C> factor = gradients[g * batch + row];
#pragma unroll
        for (int u = 0; u < depth; ++u) sum[g][u] += factor.item[u] * x;
      }
    }
#pragma unroll
    for (int g = 0; g < 3; ++g) {
#pragma unroll
      for (int u = 0; u < depth; ++u) {
        if (unit + u >= state) continue;
        const int gate = g * state + unit + u;
        T* const to = is_bias ? &step.grad_bias(gate) : &step.grad_weight(gate, column);
        *to = static_cast<T>(sum[g][u]);
      }
    }
  }
}

// Blocks [0, weight_blocks) have a tile of the weight's gradient, the rest one of [hidden, input]'s.
template <class T>
__global__ void __launch_bounds__(threads) backward(lltm::Backward<T> step, int weight_blocks, int across) {
  using C = compute_t<T>;
  extern __shared__ __align__(32) char shared[];
  __shared__ C partial[warps][depth][tile_columns<T>];
  Four<C>* const gradients = reinterpret_cast<Four<C>*>(shared);
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1];
  const int block = blockIdx.x;
  const bool is_weight = block < weight_blocks;
  const int first_row = is_weight ? 0 : (block - weight_blocks) / across * depth;
  const int first_unit = is_weight ? block * depth : 0;
  const int places = is_weight ? batch : state;
#pragma unroll 1
  for (int index = threadIdx.x; index < places * depth; index += threads) {
    const int row = first_row + (is_weight ? index / depth : index % depth);
    const int unit = first_unit + (is_weight ? index % depth : index / depth);
    LltmGradient<C> gradient = {};
    if (row < batch && unit < state) {
      gradient = lltm_step_backward<C>(step.grad_new_hidden(row, unit), step.grad_new_cell(row, unit),
                                       step.gates(row, unit), step.gates(row, state + unit),
                                       step.gates(row, 2 * state + unit), step.new_cell(row, unit));
      if (is_weight) step.grad_cell(row, unit) = static_cast<T>(gradient.cell);
    }
    C* const to = reinterpret_cast<C*>(gradients) + index;
    to[0] = gradient.i;
    to[places * depth] = gradient.o;
    to[2 * places * depth] = gradient.c;
  }
  __syncthreads();
  if (is_weight) {
    multiply_weight(step, first_unit, gradients);
  } else {
    multiply_joined(step, first_row, (block - weight_blocks) % across * tile_columns<T>, gradients, partial);
  }
}

}  // namespace

template <class T>
void lltm::fused_backward(const Backward<T>& step, void* stream) {
  const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  const int64_t weight_blocks = divide_up(state, depth), across = divide_up(columns, tile_columns<T>);
  const int64_t blocks = weight_blocks + divide_up(batch, depth) * across;
  if (blocks == 0) return;
  const int64_t shared = 3 * std::max(batch, state) * sizeof(Four<compute_t<T>>);
  backward<<<static_cast<unsigned>(blocks), threads, shared, static_cast<Stream>(stream)>>>(
      step, static_cast<int>(weight_blocks), static_cast<int>(across));
  check_launch("lltm_cell_backward");
}

template void lltm::fused_backward(const Backward<float>&, void*);
template void lltm::fused_backward(const Backward<double>&, void*);
template void lltm::fused_backward(const Backward<float16>&, void*);
template void lltm::fused_backward(const Backward<bfloat16>&, void*);
