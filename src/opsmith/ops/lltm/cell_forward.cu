// A whole LLTM step on a GPU in one launch, for products that are too small for PyTorch's.
//
// A warp owns a tile of the result: some rows of the batch times some units, with all three gates of each, so that the
// activations follow in registers. Its lanes go along the sum, [hidden, input] times a row of the weight. Both lie in
// memory in that direction: every load is coalesced, and nothing has to go through shared memory.
#include <opsmith/early_launch.h>
#include <opsmith/lanes.h>

#include "cell_gpu.h"
#include "device.cuh"
#include "pointwise.h"

namespace opsmith::ops::lltm {
namespace {

// What was fastest at nearly every size up to where PyTorch's products take over, of tiles from 1 times 1 to 8 times 4.
// Ten loads are for 24 multiply-adds of each of their elements; the four warps of a block read the same rows of the
// weight.
constexpr int rows = 4;
constexpr int units = 2;
constexpr int tile = rows * units;
constexpr int warps = 4;

// `rounds` loads of `width` adjacent elements are on their way at once. Sizes fit into 32 bits where products are
// small.
template <int width, int rounds, class T>
__global__ void __launch_bounds__(warps* lanes) forward(Forward<T> step) {
  using C = compute_t<T>;
  const int batch = step.hidden.size[0], state = step.hidden.size[1], columns = step.weight.size[1];
  const int lane = threadIdx.x % lanes;
  const int row = (blockIdx.x * warps + threadIdx.x / lanes) * rows;
  const int unit = blockIdx.y * units;
  wait_for_earlier_kernels();
  if (row >= batch) return;

  // The element whose activations this lane computes at the end: what they need is loaded now, not then.
  const int place = lane / (lanes / tile);
  const int own_row = row + place / units, own_unit = unit + place % units;
  const bool owns = lane % (lanes / tile) == 0 && own_row < batch && own_unit < state;
  C gate[3] = {}, old = 0;
  if (owns) {
    old = step.cell(own_row, own_unit);
#pragma unroll
    for (int g = 0; g < 3; ++g) gate[g] = step.bias(g * state + own_unit);
  }

  C sum[3][tile] = {};
#pragma unroll 1
  for (int first = lane * width; first < columns; first += rounds * lanes * width) {
    Vector<T, width> x[rounds][rows], w[rounds][3][units];
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      const int k = first + i * lanes * width;
      const bool is_inside = k < columns, is_hidden = k < state;
      const T* const x_first = is_hidden ? &step.hidden(row, k) : &step.input(row, k - state);
      const int64_t x_row = is_hidden ? step.hidden.stride[0] : step.input.stride[0];
      // Rows and units past the end repeat the last one, and their sums are dropped.
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        x[i][r] = is_inside ? load_adjacent<width>(x_first + min(r, batch - 1 - row) * x_row) : Vector<T, width>{};
      }
#pragma unroll
      for (int g = 0; g < 3; ++g) {
#pragma unroll
        for (int u = 0; u < units; ++u) {
          w[i][g][u] = is_inside ? load_adjacent<width>(&step.weight(g * state + min(unit + u, state - 1), k))
                                 : Vector<T, width>{};
        }
      }
    }
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
      for (int e = 0; e < width; ++e) {
#pragma unroll
        for (int g = 0; g < 3; ++g) {
#pragma unroll
          for (int p = 0; p < tile; ++p) {
            sum[g][p] += static_cast<C>(x[i][p / units].item[e]) * static_cast<C>(w[i][g][p % units].item[e]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int g = 0; g < 3; ++g) gate[g] += sum_over_lanes<tile>(sum[g], lane);
  if (!owns) return;
  const LltmState<C> next = lltm_step(gate[0], gate[1], gate[2], old);
  step.new_hidden(own_row, own_unit) = static_cast<T>(next.hidden);
  step.new_cell(own_row, own_unit) = static_cast<T>(next.cell);
#pragma unroll
  for (int g = 0; g < 3; ++g) step.gates(own_row, g * state + own_unit) = static_cast<T>(gate[g]);
}

template <int width, int rounds, class T>
void launch(const Forward<T>& step, Stream stream) {
  const int64_t batch = step.hidden.size[0], state = step.hidden.size[1];
  const dim3 blocks(static_cast<unsigned>(divide_up(batch, warps * rows)),
                    static_cast<unsigned>(divide_up(state, units)));
  launch_early<forward<width, rounds, T>>("lltm_cell", blocks, warps * lanes, 0, stream, step);
}

}  // namespace

template <class T>
void fused_forward(const Forward<T>& step, void* stream) {
  constexpr int width = 16 / sizeof(T);
  const int64_t batch = step.hidden.size[0], state = step.hidden.size[1], inputs = step.input.size[1];
  if (batch == 0 || state == 0) return;
  const auto allows = [&](const View<const T, 2>& matrix) {
    return matrix.stride[1] == 1 && matrix.stride[0] % width == 0 && is_aligned(matrix.data, width * sizeof(T));
  };
  // A vector must not reach over the seam between hidden and input.
  const bool vectors =
      state % width == 0 && inputs % width == 0 && allows(step.hidden) && allows(step.input) && allows(step.weight);
  // Few warps wait for their own loads, so they have more of them at once; many hide each other's. Eight 16-bit
  // elements a load are as much as a small step has in one round.
  constexpr int more = sizeof(T) == 2 ? 1 : 2;
  const bool few = batch * state <= 8192;
  const Stream on = static_cast<Stream>(stream);
  if (!vectors) {
    launch<1, 2>(step, on);
  } else if (few) {
    launch<width, more>(step, on);
  } else {
    launch<width, 1>(step, on);
  }
}

template void fused_forward(const Forward<float>&, void*);
template void fused_forward(const Forward<double>&, void*);
template void fused_forward(const Forward<float16>&, void*);
template void fused_forward(const Forward<bfloat16>&, void*);

}  // namespace opsmith::ops::lltm
