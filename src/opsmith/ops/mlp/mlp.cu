// The kernels of mlp on a GPU: one for a small perceptron, one for all gradients of it, and what a large one needs
// beside matrix products. All sums are taken in a fixed order.
#include "mlp.h"

#include <type_traits>

using namespace opsmith;

namespace {

using perceptron::Gradients;
using perceptron::Layers;

constexpr int threads = 256;
constexpr int most_threads = 1024;

template <class C>
__device__ C* shared_memory() {
  extern __shared__ __align__(16) char bytes[];
  return reinterpret_cast<C*>(bytes);
}

// The sum of `value` over the `lanes` neighbours of a thread, lanes a power of two; all of a warp's threads call it.
template <class C>
__device__ C sum_over_lanes(C value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
#if defined(__HIPCC__)
    value += __shfl_xor(value, distance);
#else
    value += __shfl_xor_sync(0xffffffffu, value, distance);
#endif
  }
  return value;
}

// Small perceptrons ---------------------------------------------------------------------------------------------------
//
// PyTorch starts three kernels for a forward and about ten for a backward, 2 us each at the least. What a small
// perceptron has to compute takes less than one of them; its time is that of a few loads one after the other. So loads
// that do not wait for each other are written side by side.

// `width` elements of a row from column `column` on, as one access if there are several.
template <int width, class T>
__device__ Vector<T, width> load(const View<const T, 2>& matrix, int64_t row, int64_t column) {
  if constexpr (width == 1) {
    return {{matrix(row, column)}};
  } else {
    return *reinterpret_cast<const Vector<T, width>*>(matrix.data + row * matrix.stride[0] + column);
  }
}

// How many threads share a sum of the forward, each a power of two.
struct Lanes {
  int hidden;
  int output;
};

// A block does `rows` rows of the batch: their hidden units, `lanes` threads to each, and then their outputs.
template <int width, class T>
__global__ void __launch_bounds__(threads)
    forward(Layers<T> layers, View<T, 2> hidden, View<T, 2> output, int rows, Lanes lanes) {
  using C = compute_t<T>;
  const int features = layers.input.size[1], units = layers.weight1.size[0], outputs = layers.weight2.size[0];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * rows;
  if (layers.input.size[0] - first < rows) rows = layers.input.size[0] - first;
  C* const activation = shared_memory<C>();  // [rows][units]

  constexpr int at_once = 4;  // sums of one thread
  const int groups = threads / lanes.hidden, lane = threadIdx.x % lanes.hidden;
  for (int begin = 0; begin < rows * units; begin += at_once * groups) {  // all threads, because of the shuffle
    int index[at_once], row[at_once], unit[at_once];
    C sum[at_once] = {};
#pragma unroll
    for (int n = 0; n < at_once; ++n) {
      index[n] = begin + n * groups + threadIdx.x / lanes.hidden;
      const int existing = index[n] < rows * units ? index[n] : 0;
      row[n] = existing / units;
      unit[n] = existing % units;
    }
    for (int k = lane * width; k < features; k += lanes.hidden * width) {
      Vector<T, width> x[at_once], weight[at_once];
#pragma unroll
      for (int n = 0; n < at_once; ++n) {
        x[n] = load<width>(layers.input, first + row[n], k);
        weight[n] = load<width>(layers.weight1, unit[n], k);
      }
#pragma unroll
      for (int n = 0; n < at_once; ++n) {
#pragma unroll
        for (int i = 0; i < width; ++i) sum[n] += static_cast<C>(x[n].item[i]) * static_cast<C>(weight[n].item[i]);
      }
    }
#pragma unroll
    for (int n = 0; n < at_once; ++n) {
      sum[n] = sum_over_lanes(sum[n], lanes.hidden) + static_cast<C>(layers.bias1(unit[n]));
      if (sum[n] < C(0)) sum[n] = C(0);  // a NaN stays one
      if (lane == 0 && index[n] < rows * units) {
        activation[index[n]] = sum[n];
        hidden(first + row[n], unit[n]) = static_cast<T>(sum[n]);
      }
    }
  }
  __syncthreads();
  const int out_lane = threadIdx.x % lanes.output;
  for (int begin = 0; begin < rows * outputs; begin += threads / lanes.output) {
    const int index = begin + threadIdx.x / lanes.output;
    const bool exists = index < rows * outputs;
    const int row = exists ? index / outputs : 0, out = exists ? index % outputs : 0;
    C sum = 0;
#pragma unroll 4
    for (int unit = out_lane; unit < units; unit += lanes.output) {
      sum += activation[row * units + unit] * static_cast<C>(layers.weight2(out, unit));
    }
    sum = sum_over_lanes(sum, lanes.output) + static_cast<C>(layers.bias2(out));
    if (exists && out_lane == 0) output(first + row, out) = static_cast<T>(sum);
  }
}

// Results of a block of the backward: `outer` x `items` sums over an index c, each shared by `splits` threads.
struct Tile {
  int outer;
  int items;
  int splits;
};

// Elements of a factor that a block keeps in shared memory at once.
constexpr int stage_elements = 2048;

// Terms of a sum that one thread adds up, where there are threads enough.
constexpr int terms = 8;

// Adds up left * right(c, item) over c < length. fill(place, c, outer) puts the left factors, which cost something to
// compute, into shared memory at `place`; left(place, item) reads them; store(outer, item, sum) gets the results.
template <class C, class Fill, class Left, class Right, class Store>
__device__ void contract(const Tile& tile, int64_t length, C* partial, const Fill& fill, const Left& left,
                         const Right& right, const Store& store) {
  const int item = threadIdx.x % tile.items, rest = threadIdx.x / tile.items;
  const int outer = rest % tile.outer, split = rest / tile.outer;
  const int stage = stage_elements / tile.outer;
  C sum = 0;
  for (int64_t begin = 0; begin < length; begin += stage) {
    const int count = length - begin < stage ? length - begin : stage;
    __syncthreads();
    for (int i = threadIdx.x; i < count * tile.outer; i += blockDim.x) fill(i, begin + i / tile.outer, i % tile.outer);
    __syncthreads();
    if (split < tile.splits) {
#pragma unroll terms
      for (int c = split; c < count; c += tile.splits)
        sum += left(c * tile.outer + outer, item) * right(begin + c, item);
    }
  }
  partial[threadIdx.x] = sum;
  // Eight at a time: a round costs more than the additions in it.
  const int stride = tile.outer * tile.items;
  for (int width = tile.splits; width > 1;) {
    const int next = (width + 7) / 8;
    __syncthreads();
    if (split < next) {
      for (int other = split + next; other < width; other += next) {
        partial[threadIdx.x] += partial[threadIdx.x + (other - split) * stride];
      }
    }
    width = next;
  }
  if (split == 0) store(outer, item, partial[threadIdx.x]);
}

template <class T>
struct Backward {
  View<const T, 2> grad_output;
  Layers<T> layers;
  View<const T, 2> hidden;
  Gradients<T> to;

  // The gradient before the ReLU. What it is made of is loaded before the activation is known.
  __device__ compute_t<T> grad_linear(int64_t row, int64_t unit, T activation) const {
    using C = compute_t<T>;
    C sum = 0;
#pragma unroll 4
    for (int64_t out = 0; out < grad_output.size[1]; ++out) {
      sum += static_cast<C>(grad_output(row, out)) * static_cast<C>(layers.weight2(out, unit));
    }
    return static_cast<C>(activation) <= C(0) ? C(0) : sum;
  }
};

// How the blocks of the backward are shared out, and the tile of each kind.
struct BackwardPlan {
  Tile units;  // hidden units x [F columns of grad_weight1, grad_bias1, O rows of grad_weight2], summed over the batch
  Tile rows;   // rows x F columns of grad_input, summed over the hidden units
  Tile bias;   // 1 x O elements of grad_bias2, summed over the batch
  int unit_tiles, rows_tiles;    // tiles of items
  int unit_blocks, rows_blocks;  // all
};

// No block needs what another one computes: the gradient before the ReLU is computed again where it is read, which for
// few outputs costs less than a second kernel.
template <class T>
__global__ void __launch_bounds__(most_threads) backward(Backward<T> from, BackwardPlan plan) {
  using C = compute_t<T>;
  C* const partial = shared_memory<C>();
  C* const grad = partial + blockDim.x;
  C* const activation = grad + stage_elements;
  const int features = from.layers.input.size[1], units = from.layers.weight1.size[0];
  const int64_t batch = from.layers.input.size[0];
  int block = blockIdx.x;

  if (block < plan.unit_blocks) {
    const int first_unit = block / plan.unit_tiles * plan.units.outer;
    const int first_item = block % plan.unit_tiles * plan.units.items;
    const int outputs = from.grad_output.size[1];
    contract(
        plan.units, batch, partial,
        [&](int place, int64_t row, int outer) {
          const int unit = first_unit + outer;
          const int existing = unit < units ? unit : first_unit;
          const T value = from.hidden(row, existing);
          activation[place] = static_cast<C>(value);
          grad[place] = from.grad_linear(row, existing, value);
        },
        [&](int place, int item) { return (first_item + item <= features ? grad : activation)[place]; },
        [&](int64_t row, int item) {
          const int index = first_item + item;
          if (index < features) return static_cast<C>(from.layers.input(row, index));
          if (index == features || index > features + outputs) return C(1);
          return static_cast<C>(from.grad_output(row, index - features - 1));
        },
        [&](int outer, int item, C sum) {
          const int unit = first_unit + outer, index = first_item + item;
          if (unit >= units || index > features + outputs) return;
          if (index == features) {
            from.to.bias1(unit) = static_cast<T>(sum);
          } else if (index < features) {
            if (from.to.weight1.size[0] > 0) from.to.weight1(unit, index) = static_cast<T>(sum);
          } else if (from.to.weight2.size[0] > 0) {
            from.to.weight2(index - features - 1, unit) = static_cast<T>(sum);
          }
        });
    return;
  }
  block -= plan.unit_blocks;
  if (block < plan.rows_blocks) {
    const int64_t first_row = block / plan.rows_tiles * static_cast<int64_t>(plan.rows.outer);
    const int first_item = block % plan.rows_tiles * plan.rows.items;
    contract(
        plan.rows, units, partial,
        [&](int place, int64_t unit, int outer) {
          const int64_t row = first_row + outer;
          grad[place] = row < batch ? from.grad_linear(row, unit, from.hidden(row, unit)) : C(0);
        },
        [&](int place, int) { return grad[place]; },
        [&](int64_t unit, int item) {
          const int index = first_item + item;
          return index < features ? static_cast<C>(from.layers.weight1(unit, index)) : C(0);
        },
        [&](int outer, int item, C sum) {
          const int64_t row = first_row + outer;
          const int index = first_item + item;
          if (row < batch && index < features) from.to.input(row, index) = static_cast<T>(sum);
        });
    return;
  }
  block -= plan.rows_blocks;
  const int first_item = block * plan.bias.items, outputs = from.grad_output.size[1];
  contract(
      plan.bias, batch, partial, [](int, int64_t, int) {}, [](int, int) { return C(1); },
      [&](int64_t row, int item) {
        return first_item + item < outputs ? static_cast<C>(from.grad_output(row, first_item + item)) : C(0);
      },
      [&](int, int item, C sum) {
        if (first_item + item < outputs) from.to.bias2(first_item + item) = static_cast<T>(sum);
      });
}

int divide_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

// The tile of a block of `count` threads, for sums of `length` terms.
Tile plan_tile(int64_t outer, int64_t items, int64_t length, int count) {
  Tile tile;
  tile.items = static_cast<int>(items < 1 ? 1 : items < count ? items : count);
  const int64_t fit = count / (tile.items * divide_up(length < 1 ? 1 : length, terms));
  tile.outer = static_cast<int>(fit < 1 || outer < 1 ? 1 : outer < fit ? outer : fit);
  tile.splits = count / (tile.items * tile.outer);
  return tile;
}

// What large perceptrons need beside matrix products ------------------------------------------------------------------

constexpr int columns_across = 32;  // groups of columns that a block does; its other threads take further rows
constexpr int rows_down = threads / columns_across;

// partial[slab] = the sums of a matrix's columns over the rows of a slab. A matrix that may be written to, Element = T,
// is set to 0 before where a ReLU did not let through: one pass does both, over the largest matrix there is. `width`
// columns are one access.
template <int width, class T, class Element>
__global__ void __launch_bounds__(threads)
    sum_columns(View<Element, 2> matrix, View<const T, 2> hidden, View<compute_t<T>, 2> partial) {
  using C = compute_t<T>;
  __shared__ C shared[rows_down][columns_across * width];
  const int64_t column = (blockIdx.x * static_cast<int64_t>(columns_across) + threadIdx.x) * width;
  for (int64_t slab = blockIdx.y; slab < partial.size[0]; slab += gridDim.y) {
    const int64_t begin = slab * perceptron::slab_rows;
    const int64_t end = begin + perceptron::slab_rows < matrix.size[0] ? begin + perceptron::slab_rows : matrix.size[0];
    C sum[width] = {};
    if (column < matrix.size[1]) {
#pragma unroll 4
      for (int64_t row = begin + threadIdx.y; row < end; row += rows_down) {
        Element* const place = &matrix(row, column);
        Vector<T, width> values = *reinterpret_cast<const Vector<T, width>*>(place);
        if constexpr (!std::is_const_v<Element>) {
          const auto activation = *reinterpret_cast<const Vector<T, width>*>(&hidden(row, column));
#pragma unroll
          for (int k = 0; k < width; ++k) {
            if (static_cast<C>(activation.item[k]) <= C(0)) values.item[k] = static_cast<T>(C(0));
          }
          *reinterpret_cast<Vector<T, width>*>(place) = values;
        }
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += static_cast<C>(values.item[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < width; ++k) shared[threadIdx.y][threadIdx.x * width + k] = sum[k];
    __syncthreads();
    for (int k = threadIdx.y * columns_across + threadIdx.x; k < columns_across * width; k += threads) {
      const int64_t target = blockIdx.x * static_cast<int64_t>(columns_across * width) + k;
      C total = 0;
      for (int row = 0; row < rows_down; ++row) total += shared[row][k];
      if (target < matrix.size[1]) partial(slab, target) = total;
    }
    __syncthreads();
  }
}

// The columns of `partial`, added up into the two vectors one behind the other.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_slabs(View<const compute_t<T>, 2> partial, View<T, 1> first, View<T, 1> second) {
  using C = compute_t<T>;
  __shared__ C shared[rows_down][columns_across];
  const int64_t column = blockIdx.x * static_cast<int64_t>(columns_across) + threadIdx.x;
  C sum = 0;
  if (column < partial.size[1]) {
#pragma unroll 4
    for (int64_t slab = threadIdx.y; slab < partial.size[0]; slab += rows_down) sum += partial(slab, column);
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= partial.size[1]) return;
  for (int row = 1; row < rows_down; ++row) sum += shared[row][threadIdx.x];
  if (column < first.size[0]) {
    first(column) = static_cast<T>(sum);
  } else {
    second(column - first.size[0]) = static_cast<T>(sum);
  }
}

template <class T>
constexpr int widest = 16 / sizeof(T);

// Loads of a row of weights that one thread of the forward does.
constexpr int loads_per_lane = 4;

// Whether rows of a matrix can be read 16 bytes at a time.
template <class T>
bool allows_vectors(const View<T, 2>& matrix) {
  return matrix.stride[1] == 1 && matrix.size[1] % widest<T> == 0 && matrix.stride[0] % widest<T> == 0 &&
         is_aligned(matrix.data, 16);
}

template <int width, class T, class Element>
void launch_sum_columns(View<Element, 2> matrix, View<const T, 2> hidden, View<compute_t<T>, 2> partial,
                        Stream stream) {
  const int64_t slabs = partial.size[0];
  const dim3 blocks(blocks_for(matrix.size[1], columns_across * width), slabs < 65535 ? slabs : 65535);
  sum_columns<width><<<blocks, dim3(columns_across, rows_down), 0, stream>>>(matrix, hidden, partial);
}

}  // namespace

namespace perceptron {

template <class T>
void forward_small(const Layers<T>& layers, View<T, 2> hidden, View<T, 2> output, void* stream) {
  const int64_t batch = output.size[0], features = layers.input.size[1];
  const int64_t units = hidden.size[1], outputs = output.size[1];
  if (batch == 0) return;
  const bool is_vectorised = allows_vectors(layers.weight1) && allows_vectors(layers.input);
  const auto kernel = is_vectorised ? &forward<widest<T>, T> : &forward<1, T>;
  const int64_t loads = is_vectorised ? features / widest<T> : features;
  Lanes lanes{1, 1};
  while (lanes.hidden < 32 && lanes.hidden * loads_per_lane < loads) lanes.hidden *= 2;
  int64_t rows = threads / (units * lanes.hidden + 1);
  rows = rows < 1 ? 1 : rows > batch ? batch : rows;
  while (lanes.output < 32 && lanes.output < units && 2 * lanes.output * rows * outputs <= threads) lanes.output *= 2;
  const size_t shared = rows * units * sizeof(compute_t<T>);
  kernel<<<divide_up(batch, rows), threads, shared, static_cast<Stream>(stream)>>>(layers, hidden, output, rows, lanes);
  check_launch("mlp");
}

template <class T>
void backward_small(View<const T, 2> grad_output, const Layers<T>& layers, View<const T, 2> hidden,
                    const Gradients<T>& to, void* stream) {
  const int64_t batch = hidden.size[0], features = layers.input.size[1];
  const int64_t units = hidden.size[1], outputs = grad_output.size[1], items = features + 1 + outputs;
  // More threads where they shorten the sums.
  int count = threads;
  while (count < most_threads &&
         (count < items * divide_up(batch, terms) || count < features * divide_up(units, terms))) {
    count *= 2;
  }
  BackwardPlan plan;
  plan.units = plan_tile(units, items, batch, count);
  plan.rows = plan_tile(batch, features, units, count);
  plan.bias = plan_tile(1, outputs, batch, count);
  plan.unit_tiles = divide_up(items, plan.units.items);
  plan.rows_tiles = divide_up(features, plan.rows.items);
  plan.unit_blocks = divide_up(units, plan.units.outer) * plan.unit_tiles;
  plan.rows_blocks = to.input.numel() > 0 ? divide_up(batch, plan.rows.outer) * plan.rows_tiles : 0;
  const int bias_blocks = divide_up(outputs, plan.bias.items);
  const int blocks = plan.unit_blocks + plan.rows_blocks + bias_blocks;
  if (blocks == 0) return;
  const size_t shared = (count + 2 * stage_elements) * sizeof(compute_t<T>);
  backward<<<blocks, count, shared, static_cast<Stream>(stream)>>>(Backward<T>{grad_output, layers, hidden, to}, plan);
  check_launch("mlp_backward");
}

template <class T>
void mask_and_sum(View<T, 2> grad_hidden, View<const T, 2> hidden, View<const T, 2> grad_output,
                  View<compute_t<T>, 2> partial, void* opaque) {
  const Stream stream = static_cast<Stream>(opaque);
  const int64_t units = hidden.size[1], outputs = grad_output.size[1], slabs = partial.size[0];
  if (slabs == 0) return;
  View<compute_t<T>, 2> part = partial;
  if (units > 0) {
    part.size[1] = units;
    if (allows_vectors(grad_hidden) && allows_vectors(hidden)) {
      launch_sum_columns<widest<T>>(grad_hidden, hidden, part, stream);
    } else {
      launch_sum_columns<1>(grad_hidden, hidden, part, stream);
    }
  }
  if (outputs > 0) {
    part.data += units;
    part.size[1] = outputs;
    if (allows_vectors(grad_output)) {
      launch_sum_columns<widest<T>>(grad_output, hidden, part, stream);
    } else {
      launch_sum_columns<1>(grad_output, hidden, part, stream);
    }
  }
  check_launch("mlp_backward");
}

template <class T>
void sum_slabs(View<const compute_t<T>, 2> partial, View<T, 1> grad_bias1, View<T, 1> grad_bias2, void* stream) {
  if (partial.size[1] == 0) return;
  const dim3 block(columns_across, rows_down);
  ::sum_slabs<T><<<blocks_for(partial.size[1], columns_across), block, 0, static_cast<Stream>(stream)>>>(
      partial, grad_bias1, grad_bias2);
  check_launch("mlp_backward");
}

#define OPSMITH_MLP(T)                                                                                               \
  template void forward_small<T>(const Layers<T>&, View<T, 2>, View<T, 2>, void*);                                   \
  template void backward_small<T>(View<const T, 2>, const Layers<T>&, View<const T, 2>, const Gradients<T>&, void*); \
  template void mask_and_sum<T>(View<T, 2>, View<const T, 2>, View<const T, 2>, View<compute_t<T>, 2>, void*);       \
  template void sum_slabs<T>(View<const compute_t<T>, 2>, View<T, 1>, View<T, 1>, void*);
OPSMITH_MLP(float16)
OPSMITH_MLP(bfloat16)
OPSMITH_MLP(float)
OPSMITH_MLP(double)
#undef OPSMITH_MLP

}  // namespace perceptron
