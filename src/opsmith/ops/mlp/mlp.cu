// The kernels of mlp on a GPU: one for a small perceptron, one for all
// gradients of it, and what a large one needs beside matrix products. All sums
// are taken in a fixed order.
#include "mlp.h"

#include <type_traits>

using namespace opsmith;

namespace {

using perceptron::Gradients;
using perceptron::Layers;
using perceptron::Sizes;

constexpr int threads = 256;         // of a block of the large kernels
constexpr int fewest_threads = 128;  // of a block of the small ones
constexpr int most_threads = 1024;
constexpr int most_threads_backward = 512;

template <class C>
__device__ C* shared_memory() {
  extern __shared__ __align__(16) char bytes[];
  return reinterpret_cast<C*>(bytes);
}

// The sum of `value` over the `lanes` neighbours of a thread, lanes a power of
// two; all of a warp's threads call it.
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

// Small perceptrons
// ---------------------------------------------------------------------------------------------------
//
// PyTorch starts three kernels for a forward and about ten for a backward, 1.5
// us each at the least. What a small perceptron has to compute takes less than
// one of them; its time is that of a few loads one after the other, and of the
// instructions around them. So there is one thread for every few products, and
// little code.

// A division by a number that the host knows, in one multiplication. Right for
// n * divisor < 2^32.
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

// A block does `rows` rows of the batch: first their hidden units, then their
// outputs. `width` divides the features.
template <int width, class T>
__global__ void __launch_bounds__(most_threads) forward(Sizes sizes, Layers<T> layers, T* hidden, T* output, int rows,
                                                        Lanes lanes, Divisor by_units, Divisor by_outputs) {
  using C = compute_t<T>;
  using Load = Vector<T, width>;
  const int first = blockIdx.x * rows;
  if (sizes.batch - first < rows) rows = sizes.batch - first;
  C* const activation = shared_memory<C>();  // [rows][units]

  int lane = threadIdx.x & ((1 << lanes.hidden) - 1);
  for (int begin = 0; begin < rows * sizes.units; begin += blockDim.x >> lanes.hidden) {  // all, for the shuffle
    const int index = begin + (threadIdx.x >> lanes.hidden);
    const bool exists = index < rows * sizes.units;
    const int row = exists ? by_units.quotient(index) : 0, unit = exists ? index - row * sizes.units : 0;
    const T* const x = layers.input + (first + row) * sizes.features;
    const T* const weights = layers.weight1 + unit * sizes.features;
    C sum = 0;
#pragma unroll 2
    for (int k = lane * width; k < sizes.features; k += width << lanes.hidden) {
      const Load left = *reinterpret_cast<const Load*>(x + k), right = *reinterpret_cast<const Load*>(weights + k);
#pragma unroll
      for (int i = 0; i < width; ++i) sum += static_cast<C>(left.item[i]) * static_cast<C>(right.item[i]);
    }
    sum = sum_over_lanes(sum, 1 << lanes.hidden) + static_cast<C>(layers.bias1[unit]);
    if (sum < C(0)) sum = C(0);  // a NaN stays one
    if (exists && lane == 0) {
      activation[index] = sum;
      hidden[first * sizes.units + index] = static_cast<T>(sum);
    }
  }
  __syncthreads();
  lane = threadIdx.x & ((1 << lanes.output) - 1);
  for (int begin = 0; begin < rows * sizes.outputs; begin += blockDim.x >> lanes.output) {
    const int index = begin + (threadIdx.x >> lanes.output);
    const bool exists = index < rows * sizes.outputs;
    const int row = exists ? by_outputs.quotient(index) : 0, out = exists ? index - row * sizes.outputs : 0;
    C sum = 0;
#pragma unroll 4
    for (int unit = lane; unit < sizes.units; unit += 1 << lanes.output) {
      sum += activation[row * sizes.units + unit] * static_cast<C>(layers.weight2[out * sizes.units + unit]);
    }
    sum = sum_over_lanes(sum, 1 << lanes.output) + static_cast<C>(layers.bias2[out]);
    if (exists && lane == 0) output[first * sizes.outputs + index] = static_cast<T>(sum);
  }
}

// The backward is three kinds of sums, and a block does some of one kind.
enum Kind {
  by_unit,  // hidden units x [F columns of grad_weight1, grad_bias1, O rows of
            // grad_weight2], over the batch
  by_row,   // rows x F columns of grad_input, over the hidden units
  by_bias,  // 1 x O elements of grad_bias2, over the batch
  kinds
};

// What a block computes: `outer` x `items` sums, each shared by `splits`
// threads.
struct Tile {
  Divisor outer;
  Divisor items;
  int splits;
};

struct KindPlan {
  Tile tile;
  int item_tiles;  // blocks that share the outer ones and take other items
  int blocks;
};

// Elements of a factor that a block keeps in shared memory at once.
constexpr int stage_elements = 2048;

// Terms of a sum that one thread adds up, where there are threads enough.
constexpr int terms = 8;

template <class T>
struct Backward {
  KindPlan plan[kinds];
  Sizes sizes;
  Layers<T> layers;
  const T* hidden;
  const T* grad_output;
  int64_t grad_row;  // strides of grad_output
  int64_t grad_column;
  Gradients<T> to;
};

// No block needs what another one computes: the gradient before the ReLU,
// grad_linear, is computed again where it is read, which for few outputs costs
// less than a second kernel.
template <class T>
__global__ void __launch_bounds__(most_threads_backward) backward(Backward<T> from) {
  using C = compute_t<T>;
  C* const partial = shared_memory<C>();
  C* const grad_linear = partial + blockDim.x;
  C* const activation = grad_linear + stage_elements;
  const Sizes sizes = from.sizes;

  int kind = by_unit, block = blockIdx.x;
  for (; block >= from.plan[kind].blocks; ++kind) block -= from.plan[kind].blocks;
  const Tile tile = from.plan[kind].tile;
  const int outer_block = block / from.plan[kind].item_tiles;
  const int item_block = block - outer_block * from.plan[kind].item_tiles;
  const int outer_count = tile.outer.value, item_count = tile.items.value;
  const int rest = tile.items.quotient(threadIdx.x), split = tile.outer.quotient(rest);
  const int item = threadIdx.x - rest * item_count, outer = rest - split * outer_count;
  const int first_outer = outer_block * outer_count, index = item_block * item_count + item;
  const int length = kind == by_row ? sizes.units : sizes.batch;

  // The right factors of this thread's sum are a column of a matrix; those of a
  // bias are 1.
  const T* column = from.grad_output;
  int64_t step = from.grad_row;
  const C* left = grad_linear;
  bool is_column = true;
  const int out = kind == by_unit ? index - sizes.features - 1 : index;
  if (kind == by_row || (kind == by_unit && index < sizes.features)) {
    is_column = index < sizes.features;
    column = (kind == by_row ? from.layers.weight1 : from.layers.input) + index;
    step = sizes.features;
  } else {
    is_column = out >= 0 && out < sizes.outputs;
    column += out * from.grad_column;
    if (kind == by_unit && out >= 0) left = activation;
  }

  C sum = 0;
  const int stage = stage_elements / outer_count;
  for (int begin = 0; begin < length; begin += stage) {
    const int count = length - begin < stage ? length - begin : stage;
    __syncthreads();
    for (int i = threadIdx.x; i < count * outer_count; i += blockDim.x) {
      const int c = tile.outer.quotient(i), across = first_outer + i - c * outer_count;
      int row = kind == by_row ? across : begin + c, unit = kind == by_row ? begin + c : across;
      if (row >= sizes.batch || unit >= sizes.units) row = 0, unit = 0;  // no result of these is stored
      C grad = 1;
      if (kind != by_bias) {
        const C value = static_cast<C>(from.hidden[row * sizes.units + unit]);
        activation[i] = value;
        grad = 0;
#pragma unroll 2
        for (int k = 0; k < sizes.outputs; ++k) {
          grad += static_cast<C>(from.grad_output[row * from.grad_row + k * from.grad_column]) *
                  static_cast<C>(from.layers.weight2[k * sizes.units + unit]);
        }
        if (value <= C(0)) grad = 0;
      }
      grad_linear[i] = grad;
    }
    __syncthreads();
    if (split >= tile.splits) continue;
#pragma unroll 4
    for (int c = split; c < count; c += tile.splits) {
      sum += left[c * outer_count + outer] * (is_column ? static_cast<C>(column[(begin + c) * step]) : C(1));
    }
  }

  // Eight parts of a sum at a time: a round costs more than the additions in
  // it.
  partial[threadIdx.x] = sum;
  for (int width = tile.splits; width > 1;) {
    const int next = (width + 7) / 8;
    __syncthreads();
    for (int other = split + next; split < next && other < width; other += next) {
      partial[threadIdx.x] += partial[threadIdx.x + (other - split) * outer_count * item_count];
    }
    width = next;
  }
  const int across = first_outer + outer;
  if (split > 0 || across >= (kind == by_row ? sizes.batch : kind == by_unit ? sizes.units : 1)) return;
  const T total = static_cast<T>(partial[threadIdx.x]);
  T* to = nullptr;
  if (kind == by_row) {
    if (is_column) to = from.to.input + across * sizes.features + index;
  } else if (kind == by_bias) {
    if (is_column) to = from.to.bias2 + index;
  } else if (index < sizes.features) {
    if (from.to.weight1 != nullptr) to = from.to.weight1 + across * sizes.features + index;
  } else if (index == sizes.features) {
    to = from.to.bias1 + across;
  } else if (is_column && from.to.weight2 != nullptr) {
    to = from.to.weight2 + out * sizes.units + across;
  }
  if (to != nullptr) *to = total;
}

int divide_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

int64_t at_least_1(int64_t value) { return value < 1 ? 1 : value; }

// The plan of one kind of sums, for blocks of `count` threads.
KindPlan plan_kind(int64_t outer, int64_t items, int64_t length, int count) {
  const int64_t across = at_least_1(items < count ? items : count);
  const int64_t fit = at_least_1(count / (across * divide_up(at_least_1(length), terms)));
  const int64_t along = at_least_1(outer < fit ? outer : fit);
  const int item_tiles = divide_up(items, across);
  const Tile tile{Divisor(along), Divisor(across), static_cast<int>(count / (across * along))};
  return {tile, item_tiles, divide_up(outer, along) * item_tiles};
}

// What large perceptrons need beside matrix products
// ------------------------------------------------------------------

constexpr int columns_across = 32;  // groups of columns that a block does; its
                                    // other threads take further rows
constexpr int rows_down = threads / columns_across;

// partial[slab] = the sums of a matrix's columns over the rows of a slab. A
// matrix that may be written to, Element = T, is set to 0 before where a ReLU
// did not let through: one pass does both, over the largest matrix there is.
// `width` columns are one access.
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
void forward_small(const Sizes& sizes, const Layers<T>& layers, T* hidden, T* output, void* stream) {
  if (sizes.batch == 0) return;
  const bool is_vectorised =
      sizes.features % widest<T> == 0 && is_aligned(layers.input, 16) && is_aligned(layers.weight1, 16);
  const auto kernel = is_vectorised ? &forward<widest<T>, T> : &forward<1, T>;
  const int loads = is_vectorised ? sizes.features / widest<T> : sizes.features;
  Lanes lanes{0, 0};
  while (lanes.hidden < 5 && loads_per_lane << lanes.hidden < loads) ++lanes.hidden;
  int count = fewest_threads;
  while (count < most_threads && count < sizes.units << lanes.hidden) count *= 2;
  int64_t rows = count / at_least_1(sizes.units << lanes.hidden);
  rows = rows > sizes.batch ? sizes.batch : at_least_1(rows);
  while (lanes.output < 5 && 1 << lanes.output < sizes.units && rows * sizes.outputs << (lanes.output + 1) <= count) {
    ++lanes.output;
  }
  const size_t shared = rows * sizes.units * sizeof(compute_t<T>);
  kernel<<<divide_up(sizes.batch, rows), count, shared, static_cast<Stream>(stream)>>>(
      sizes, layers, hidden, output, rows, lanes, Divisor(sizes.units), Divisor(sizes.outputs));
  check_launch("mlp");
}

template <class T>
void backward_small(const Sizes& sizes, View<const T, 2> grad_output, const Layers<T>& layers, const T* hidden,
                    const Gradients<T>& to, void* stream) {
  const int64_t batch = sizes.batch, features = sizes.features, items = features + 1 + sizes.outputs;
  // More threads where they shorten the sums.
  int count = fewest_threads;
  while (count < most_threads_backward &&
         (count < items * divide_up(batch, terms) || count < features * divide_up(sizes.units, terms))) {
    count *= 2;
  }
  const Backward<T> from{{plan_kind(sizes.units, items, batch, count),
                          plan_kind(to.input != nullptr ? batch : 0, features, sizes.units, count),
                          plan_kind(1, sizes.outputs, batch, count)},
                         sizes,
                         layers,
                         hidden,
                         grad_output.data,
                         grad_output.stride[0],
                         grad_output.stride[1],
                         to};
  const int blocks = from.plan[by_unit].blocks + from.plan[by_row].blocks + from.plan[by_bias].blocks;
  if (blocks == 0) return;
  const size_t shared = (count + 2 * stage_elements) * sizeof(compute_t<T>);
  backward<<<blocks, count, shared, static_cast<Stream>(stream)>>>(from);
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

#define OPSMITH_MLP(T)                                                                                             \
  template void forward_small<T>(const Sizes&, const Layers<T>&, T*, T*, void*);                                   \
  template void backward_small<T>(const Sizes&, View<const T, 2>, const Layers<T>&, const T*, const Gradients<T>&, \
                                  void*);                                                                          \
  template void mask_and_sum<T>(View<T, 2>, View<const T, 2>, View<const T, 2>, View<compute_t<T>, 2>, void*);     \
  template void sum_slabs<T>(View<const compute_t<T>, 2>, View<T, 1>, View<T, 1>, void*);
OPSMITH_MLP(float16)
OPSMITH_MLP(bfloat16)
OPSMITH_MLP(float)
OPSMITH_MLP(double)
#undef OPSMITH_MLP

}  // namespace perceptron
