// The kernels of mlp on a GPU: one for a small perceptron, one for all gradients of it, and what a large one needs
// beside matrix products. All sums are taken in a fixed order.
#include "mlp.h"

#include <type_traits>

using namespace opsmith;

namespace {

using perceptron::Gradients;
using perceptron::Layers;

constexpr int threads = 256;         // of a block of the large kernels
constexpr int fewest_threads = 128;  // of a block of the small ones
constexpr int most_threads = 1024;

template <class C>
__device__ C* shared_memory() {
  extern __shared__ __align__(16) char bytes[];
  return reinterpret_cast<C*>(bytes);
}

// `width` elements of a row from column `column` on, as one access if there are several.
template <int width, class T>
__device__ Vector<T, width> load(const View<const T, 2>& matrix, int64_t row, int64_t column) {
  if constexpr (width == 1) {
    return {{matrix(row, column)}};
  } else {
    return *reinterpret_cast<const Vector<T, width>*>(matrix.data + row * matrix.stride[0] + column);
  }
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
// PyTorch starts three kernels for a forward and about ten for a backward, 1.5 us each at the least. What a small
// perceptron has to compute takes less than one of them; its time is that of a few loads one after the other, and of
// the instructions around them. So there is one thread for every few products, and little code.

// A division by a number that the host knows, in one multiplication. Right for n * divisor < 2^32.
struct Divisor {
  unsigned value;
  unsigned magic;

  Divisor() = default;
  explicit Divisor(int64_t value)
      : value(static_cast<unsigned>(value)),
        magic(value > 1 ? static_cast<unsigned>(((uint64_t{1} << 32) + value - 1) / value) : 0) {}

  __device__ unsigned quotient(unsigned n) const { return value > 1 ? __umulhi(n, magic) : n; }
};

// How many threads share a sum of the forward: 2 to the power of these.
struct Lanes {
  int hidden;
  int output;
};

// A block does `rows` rows of the batch: first their hidden units, then their outputs.
template <int width, class T>
__global__ void __launch_bounds__(most_threads) forward(Layers<T> layers, View<T, 2> hidden, View<T, 2> output,
                                                        int rows, Lanes lanes, Divisor by_units, Divisor by_outputs) {
  using C = compute_t<T>;
  const int features = layers.input.size[1], units = by_units.value, outputs = by_outputs.value;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * rows;
  if (layers.input.size[0] - first < rows) rows = layers.input.size[0] - first;
  C* const activation = shared_memory<C>();  // [rows][units]

  int lane = threadIdx.x & ((1 << lanes.hidden) - 1);
  for (int begin = 0; begin < rows * units; begin += blockDim.x >> lanes.hidden) {  // all threads, for the shuffle
    const int index = begin + (threadIdx.x >> lanes.hidden);
    const bool exists = index < rows * units;
    const int row = exists ? by_units.quotient(index) : 0, unit = exists ? index - row * units : 0;
    C sum = 0;
#pragma unroll 2
    for (int k = lane * width; k < features; k += width << lanes.hidden) {
      const auto x = load<width>(layers.input, first + row, k);
      const auto weight = load<width>(layers.weight1, unit, k);
#pragma unroll
      for (int i = 0; i < width; ++i) sum += static_cast<C>(x.item[i]) * static_cast<C>(weight.item[i]);
    }
    sum = sum_over_lanes(sum, 1 << lanes.hidden) + static_cast<C>(layers.bias1(unit));
    if (sum < C(0)) sum = C(0);  // a NaN stays one
    if (exists && lane == 0) {
      activation[index] = sum;
      hidden(first + row, unit) = static_cast<T>(sum);
    }
  }
  __syncthreads();
  lane = threadIdx.x & ((1 << lanes.output) - 1);
  for (int begin = 0; begin < rows * outputs; begin += blockDim.x >> lanes.output) {
    const int index = begin + (threadIdx.x >> lanes.output);
    const bool exists = index < rows * outputs;
    const int row = exists ? by_outputs.quotient(index) : 0, out = exists ? index - row * outputs : 0;
    C sum = 0;
#pragma unroll 4
    for (int unit = lane; unit < units; unit += 1 << lanes.output) {
      sum += activation[row * units + unit] * static_cast<C>(layers.weight2(out, unit));
    }
    sum = sum_over_lanes(sum, 1 << lanes.output) + static_cast<C>(layers.bias2(out));
    if (exists && lane == 0) output(first + row, out) = static_cast<T>(sum);
  }
}

// The backward is three kinds of sums, and a block does some of one kind.
enum Kind {
  by_unit,  // hidden units x [F columns of grad_weight1, grad_bias1, O rows of grad_weight2], over the batch
  by_row,   // rows x F columns of grad_input, over the hidden units
  by_bias,  // 1 x O elements of grad_bias2, over the batch
  kinds
};

// What a block computes: `outer` x `items` sums, each shared by `splits` threads.
struct Tile {
  Divisor outer;
  Divisor items;
  int splits;
};

struct BackwardPlan {
  Tile tile[kinds];
  int item_tiles[kinds];  // blocks that share the outer ones and take other items
  int blocks[kinds];
};

// Elements of a factor that a block keeps in shared memory at once.
constexpr int stage_elements = 2048;

// Terms of a sum that one thread adds up, where there are threads enough.
constexpr int terms = 4;

template <class T>
struct Backward {
  View<const T, 2> grad_output;
  Layers<T> layers;
  View<const T, 2> hidden;
  Gradients<T> to;
};

// No block needs what another one computes: the gradient before the ReLU, grad_linear, is computed again where it is
// read, which for few outputs costs less than a second kernel.
template <class T>
__global__ void __launch_bounds__(most_threads) backward(Backward<T> from, BackwardPlan plan) {
  using C = compute_t<T>;
  C* const partial = shared_memory<C>();
  C* const grad_linear = partial + blockDim.x;
  C* const activation = grad_linear + stage_elements;
  const int features = from.layers.input.size[1], units = from.hidden.size[1], outputs = from.grad_output.size[1];
  const int64_t batch = from.hidden.size[0];

  int kind = by_unit, block = blockIdx.x;
  for (; block >= plan.blocks[kind]; ++kind) block -= plan.blocks[kind];
  const Tile tile = plan.tile[kind];
  const int outer_block = block / plan.item_tiles[kind];
  const int item_block = block - outer_block * plan.item_tiles[kind];
  const int outer_count = tile.outer.value, item_count = tile.items.value;
  const int rest = tile.items.quotient(threadIdx.x), split = tile.outer.quotient(rest);
  const int item = threadIdx.x - rest * item_count, outer = rest - split * outer_count;
  const int64_t first_outer = static_cast<int64_t>(outer_block) * outer_count;
  const int index = item_block * item_count + item;
  const int64_t length = kind == by_row ? units : batch;

  // The right factor of this thread's sum is a column of a matrix; that of a bias is 1.
  View<const T, 2> matrix = kind == by_unit  ? from.layers.input
                            : kind == by_row ? from.layers.weight1
                                             : from.grad_output;
  const C* left = grad_linear;
  int column = index;
  if (kind == by_unit && index > features) matrix = from.grad_output, column = index - features - 1, left = activation;
  const bool is_column = column < matrix.size[1];

  C sum = 0;
  const int stage = stage_elements / outer_count;
  for (int64_t begin = 0; begin < length; begin += stage) {
    const int count = length - begin < stage ? length - begin : stage;
    __syncthreads();
    for (int i = threadIdx.x; i < count * outer_count; i += blockDim.x) {
      const int c = tile.outer.quotient(i);
      const int64_t across = first_outer + i - c * outer_count;
      int64_t row = kind == by_row ? across : begin + c, unit = kind == by_row ? begin + c : across;
      if (row >= batch || unit >= units) row = 0, unit = 0;  // no result of these is stored
      C grad = 1;
      if (kind != by_bias) {
        const C value = static_cast<C>(from.hidden(row, unit));
        activation[i] = value;
        grad = 0;
#pragma unroll 2
        for (int out = 0; out < outputs; ++out) {
          grad += static_cast<C>(from.grad_output(row, out)) * static_cast<C>(from.layers.weight2(out, unit));
        }
        if (value <= C(0)) grad = 0;
      }
      grad_linear[i] = grad;
    }
    __syncthreads();
    if (split >= tile.splits) continue;
#pragma unroll 4
    for (int c = split; c < count; c += tile.splits) {
      sum += left[c * outer_count + outer] * (is_column ? static_cast<C>(matrix(begin + c, column)) : C(1));
    }
  }

  // Eight parts of a sum at a time: a round costs more than the additions in it.
  partial[threadIdx.x] = sum;
  for (int width = tile.splits; width > 1;) {
    const int next = (width + 7) / 8;
    __syncthreads();
    for (int other = split + next; split < next && other < width; other += next) {
      partial[threadIdx.x] += partial[threadIdx.x + (other - split) * outer_count * item_count];
    }
    width = next;
  }
  if (split > 0) return;
  const T total = static_cast<T>(partial[threadIdx.x]);
  const int64_t across = first_outer + outer;
  if (kind == by_row) {
    if (is_column && across < batch) from.to.input(across, index) = total;
  } else if (kind == by_bias) {
    if (is_column) from.to.bias2(index) = total;
  } else if (across < units) {
    if (index == features) {
      from.to.bias1(across) = total;
    } else if (is_column && index < features) {
      if (from.to.weight1.size[0] > 0) from.to.weight1(across, index) = total;
    } else if (is_column) {
      if (from.to.weight2.size[0] > 0) from.to.weight2(column, across) = total;
    }
  }
}

int divide_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

int64_t at_least_1(int64_t value) { return value < 1 ? 1 : value; }

// Adds a kind of sums to the plan, for blocks of `count` threads.
void plan_kind(BackwardPlan* plan, Kind kind, int64_t outer, int64_t items, int64_t length, int count) {
  const int64_t across = at_least_1(items < count ? items : count);
  const int64_t fit = at_least_1(count / (across * divide_up(at_least_1(length), terms)));
  const int64_t along = at_least_1(outer < fit ? outer : fit);
  plan->tile[kind] = {Divisor(along), Divisor(across), static_cast<int>(count / (across * along))};
  plan->item_tiles[kind] = divide_up(items, across);
  plan->blocks[kind] = divide_up(outer, along) * plan->item_tiles[kind];
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
constexpr int loads_per_lane = 2;

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
  Lanes lanes{0, 0};
  while (lanes.hidden < 5 && loads_per_lane << lanes.hidden < loads) ++lanes.hidden;
  int count = fewest_threads;
  while (count < most_threads && count < units << lanes.hidden) count *= 2;
  int64_t rows = count / at_least_1(units << lanes.hidden);
  rows = rows > batch ? batch : at_least_1(rows);
  while (lanes.output < 5 && 1 << lanes.output < units && rows * outputs << (lanes.output + 1) <= count) ++lanes.output;
  const size_t shared = rows * units * sizeof(compute_t<T>);
  kernel<<<divide_up(batch, rows), count, shared, static_cast<Stream>(stream)>>>(layers, hidden, output, rows, lanes,
                                                                                 Divisor(units), Divisor(outputs));
  check_launch("mlp");
}

template <class T>
void backward_small(View<const T, 2> grad_output, const Layers<T>& layers, View<const T, 2> hidden,
                    const Gradients<T>& to, void* stream) {
  const int64_t batch = hidden.size[0], features = layers.input.size[1];
  const int64_t units = hidden.size[1], outputs = grad_output.size[1], items = features + 1 + outputs;
  // More threads where they shorten the sums.
  int count = fewest_threads;
  while (count < most_threads &&
         (count < items * divide_up(batch, terms) || count < features * divide_up(units, terms))) {
    count *= 2;
  }
  BackwardPlan plan;
  plan_kind(&plan, by_unit, units, items, batch, count);
  plan_kind(&plan, by_row, to.input.numel() > 0 ? batch : 0, features, units, count);
  plan_kind(&plan, by_bias, 1, outputs, batch, count);
  const int blocks = plan.blocks[by_unit] + plan.blocks[by_row] + plan.blocks[by_bias];
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
