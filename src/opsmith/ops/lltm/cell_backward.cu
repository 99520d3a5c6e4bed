// All gradients of an LLTM step on a GPU in one launch, for batches and states that are too small for PyTorch's
// products.
//
// Some blocks compute the gradient of [hidden, input], the others those of weight, bias and cell. Both kinds need the
// gates' gradients, and compute those that they need: that repeats the activations, but a second launch would cost
// more. Every sum is formed in one order, so results are the same in every run.
#include <opsmith/early_launch.h>
#include <opsmith/lanes.h>

#include <algorithm>

#include "cell_gpu.h"
#include "device.cuh"
#include "pointwise.h"

namespace opsmith::ops::lltm {
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

// A column of a matrix, of which a thread takes the elements first, first + step, ... below `count`: some of them ahead
// of their use, so that their latencies pass at once, and the first ones while the gates' gradients are computed.
template <class T>
class Column {
 public:
  __device__ Column(const T* column, int64_t stride, int first, int step, int count)
      : column_(column), stride_(stride), next_(first), step_(step), count_(count) {
    load();
  }

  // Calls f(index, element) for each.
  template <class F>
  __device__ void for_each(const F& f) {
#pragma unroll 1
    while (true) {
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        if (next_ + k * step_ < count_) f(next_ + k * step_, static_cast<compute_t<T>>(loaded_[k]));
      }
      next_ += ahead * step_;
      if (next_ >= count_) return;
      load();
    }
  }

 private:
  static constexpr int ahead = 16;

  __device__ void load() {
    const T* from = column_ + next_ * stride_;
    const int64_t stride = step_ * stride_;
#pragma unroll
    for (int k = 0; k < ahead; ++k, from += stride) {
      if (next_ + k * step_ < count_) loaded_[k] = *from;
    }
  }

  const T* column_;
  int64_t stride_;
  int next_, step_, count_;
  T loaded_[ahead] = {};
};

// Column `column` of [hidden, input], a thread's own.
template <class T>
__device__ Column<T> joined_column(const Backward<T>& step, int column) {
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  const bool is_hidden = column < state;
  const T* const first = is_hidden ? &step.hidden(0, column) : &step.input(0, column - state);
  return {first, is_hidden ? step.hidden.stride[0] : step.input.stride[0], 0, 1, column < columns ? batch : 0};
}

// The gradients of the gates that a block needs, into shared memory. The gradient of the cell is written by the blocks
// of the weight's tiles, which have each element once.
template <bool is_weight, class T>
__device__ void compute_gates(const Backward<T>& step, int first, Four<compute_t<T>>* gradients) {
  using C = compute_t<T>;
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1], places = is_weight ? batch : state;
#pragma unroll 1
  for (int index = threadIdx.x; index < places * depth; index += threads) {
    const int one_of_four = first + index % depth, place = index / depth;
    const int row = is_weight ? place : one_of_four, unit = is_weight ? one_of_four : place;
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
}

// The gradients of four rows of [hidden, input] in a few columns. The sum over the gates is spread over the block.
template <class T>
__device__ void multiply_joined(const Backward<T>& step, int row, int column, Four<compute_t<T>>* gradients) {
  using C = compute_t<T>;
  constexpr int across = tile_columns<T>;
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  const int lane = threadIdx.x % lanes, own_column = column + threadIdx.x % across;
  // Columns past the end repeat the last one.
  Column<T> weight(&step.weight(0, min(own_column, columns - 1)), step.weight.stride[0], threadIdx.x / across,
                   threads / across, 3 * state);
  compute_gates<false>(step, row, gradients);
  C sum[depth] = {};
  weight.for_each([&](int gate, C w) {
    const Four<C> factor = gradients[gate];
#pragma unroll
    for (int r = 0; r < depth; ++r) sum[r] += factor.item[r] * w;
  });
  // First over the lanes of a warp that have one column, then over the warps.
  __shared__ C partial[warps][depth][across];
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

// The gradients of the weight's rows for four units, a thread to a column, and of their biases.
template <class T>
__device__ void multiply_weight(const Backward<T>& step, int unit, Four<compute_t<T>>* gradients) {
  using C = compute_t<T>;
  const int batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  Column<T> joined = joined_column(step, threadIdx.x);
  compute_gates<true>(step, unit, gradients);
#pragma unroll 1
  for (int column = threadIdx.x; column < columns;) {
    C sum[3][depth] = {};
    joined.for_each([&](int row, C x) {
#pragma unroll
      for (int g = 0; g < 3; ++g) {
        const Four<C> factor = gradients[g * batch + row];
#pragma unroll
        for (int u = 0; u < depth; ++u) sum[g][u] += factor.item[u] * x;
      }
    });
#pragma unroll
    for (int g = 0; g < 3; ++g) {
#pragma unroll
      for (int u = 0; u < depth; ++u) {
        if (unit + u < state) step.grad_weight(g * state + unit + u, column) = static_cast<T>(sum[g][u]);
      }
    }
    column += threads;
    if (column < columns) joined = joined_column(step, column);
  }
  // A warp takes the bias of one gate after the other.
  for (int index = threadIdx.x / lanes; index < 3 * depth; index += warps) {
    const int g = index / depth, u = index % depth;
    C sum[1] = {0};
    for (int row = threadIdx.x % lanes; row < batch; row += lanes) sum[0] += gradients[g * batch + row].item[u];
    const C total = sum_over_lanes<1>(sum, threadIdx.x % lanes);
    if (threadIdx.x % lanes == 0 && unit + u < state) step.grad_bias(g * state + unit + u) = static_cast<T>(total);
  }
}

// Blocks [0, weight_blocks) have a tile of the weight's gradient, the rest one of [hidden, input]'s, `across` in a row.
template <class T>
__global__ void __launch_bounds__(threads) backward(Backward<T> step, int weight_blocks, int across) {
  extern __shared__ __align__(32) char shared[];
  auto* const gradients = reinterpret_cast<Four<compute_t<T>>*>(shared);
  const int block = static_cast<int>(blockIdx.x) - weight_blocks;
  wait_for_earlier_kernels();
  if (block < 0) {
    multiply_weight(step, static_cast<int>(blockIdx.x) * depth, gradients);
  } else {
    multiply_joined(step, block / across * depth, block % across * tile_columns<T>, gradients);
  }
}

}  // namespace

template <class T>
void fused_backward(const Backward<T>& step, void* stream) {
  const int64_t batch = step.new_cell.size[0], state = step.new_cell.size[1], columns = step.weight.size[1];
  const int64_t weight_blocks = divide_up(state, depth), across = divide_up(columns, tile_columns<T>);
  const int64_t blocks = weight_blocks + divide_up(batch, depth) * across;
  if (blocks == 0) return;
  const int64_t shared = 3 * std::max(batch, state) * sizeof(Four<compute_t<T>>);
  launch_early<backward<T>>("lltm_cell_backward", static_cast<unsigned>(blocks), threads, shared,
                            static_cast<Stream>(stream), step, static_cast<int>(weight_blocks),
                            static_cast<int>(across));
}

template void fused_backward(const Backward<float>&, void*);
template void fused_backward(const Backward<double>&, void*);
template void fused_backward(const Backward<float16>&, void*);
template void fused_backward(const Backward<bfloat16>&, void*);

}  // namespace opsmith::ops::lltm
