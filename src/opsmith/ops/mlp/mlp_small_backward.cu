// All gradients of a small perceptron on a GPU, in one kernel. All sums are taken in a fixed order.
#include <opsmith/early_launch.h>

#include "mlp_device.cuh"

namespace opsmith::ops::mlp {
namespace {

constexpr int most_threads = 512;  // of a block

// The backward is three kinds of sums, and a block does some of one kind.
enum Kind {
  by_unit,  // hidden units x [F columns of grad_weight1, grad_bias1, O rows of
            // grad_weight2], over the batch
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

struct KindPlan {
  Tile tile;
  int item_tiles;  // blocks that share the outer ones and take other items
  int blocks;
};

// Elements of a factor that a block keeps in shared memory at once.
constexpr int stage_elements = 2048;

// Terms of a sum that one thread adds up, where there are threads enough.
constexpr int terms = 16;

// Terms that are worth a thread of their own.
constexpr int fewest_terms = 4;

// Parts of a sum that a thread adds up at once.
constexpr int parts = 16;

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

// No block needs what another one computes: the gradient before the ReLU, grad_linear, is computed again where it is
// read, which for few outputs costs less than a second kernel.
template <class T>
__global__ void __launch_bounds__(most_threads) backward(Backward<T> from) {
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

  // The right factors of this thread's sum are a column of a matrix; those of a bias are 1.
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

  const bool is_read = is_column && split < tile.splits;

  wait_for_earlier_kernels();
  C sum = 0;
  const int stage = stage_elements / outer_count;
  for (int begin = 0; begin < length; begin += stage) {
    const int count = length - begin < stage ? length - begin : stage;
    // The first right factors are on their way while the left ones are computed, so that memory is waited for once.
    T first[terms];
    const T* next = column + (begin + split) * step;
#pragma unroll
    for (int i = 0; i < terms; ++i) {
      first[i] = static_cast<T>(1.0f);
      if (is_read && split + i * tile.splits < count) first[i] = *next;
      next += tile.splits * step;
    }
    if (begin > 0) __syncthreads();
    for (int i = threadIdx.x; i < count * outer_count; i += blockDim.x) {
      const int c = tile.outer.quotient(i), across = first_outer + i - c * outer_count;
      int row = kind == by_row ? across : begin + c, unit = kind == by_row ? begin + c : across;
      if (row >= sizes.batch || unit >= sizes.units) row = 0, unit = 0;  // no result of these is stored
      C grad = 1;
      if (kind != by_bias) {
        const C value = static_cast<C>(from.hidden[row * sizes.units + unit]);
        grad = 0;
#pragma unroll 2
        for (int k = 0; k < sizes.outputs; ++k) {
          grad += static_cast<C>(from.grad_output[row * from.grad_row + k * from.grad_column]) *
                  static_cast<C>(from.layers.weight2[k * sizes.units + unit]);
        }
        if (value <= C(0)) grad = 0;
        activation[i] = value;
      }
      grad_linear[i] = grad;
    }
    __syncthreads();
    if (split >= tile.splits) continue;
#pragma unroll
    for (int i = 0; i < terms; ++i) {
      const int c = split + i * tile.splits;
      if (c < count) sum += left[c * outer_count + outer] * static_cast<C>(first[i]);
    }
#pragma unroll 4
    for (int c = split + terms * tile.splits; c < count; c += tile.splits) {
      sum += left[c * outer_count + outer] * (is_read ? static_cast<C>(*next) : C(1));
      next += tile.splits * step;
    }
  }

  // Sixteen parts of a sum at a time: a round costs more than the additions in it.
  partial[threadIdx.x] = sum;
  for (int width = tile.splits; width > 1;) {
    const int next = (width + parts - 1) / parts;
    __syncthreads();
    if (split < next) {
#pragma unroll
      for (int part = 1; part < parts; ++part) {
        const int other = split + part * next;
        if (other < width) sum += partial[threadIdx.x + part * next * outer_count * item_count];
      }
      partial[threadIdx.x] = sum;
    }
    width = next;
  }
  const int across = first_outer + outer;
  if (split > 0 || across >= (kind == by_row ? sizes.batch : kind == by_unit ? sizes.units : 1)) return;
  const T total = static_cast<T>(sum);
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

// The plan of one kind of sums, for blocks of `count` threads.
KindPlan plan_kind(int64_t outer, int64_t items, int64_t length, int count) {
  const int64_t across = at_least_1(items < count ? items : count), long_enough = at_least_1(length);
  int64_t along = at_least_1(count / (across * divide_up(long_enough, terms)));
  if (along > outer) along = at_least_1(outer);
  // Not more than the block's threads compute left factors of in one round.
  if (along * long_enough > count) along = at_least_1(count / long_enough);
  int64_t splits = count / (across * along);
  const int64_t useful = divide_up(long_enough, fewest_terms);
  if (splits > useful) splits = useful;
  const int item_tiles = static_cast<int>(divide_up(items, across));
  return {{Divisor(along), Divisor(across), static_cast<int>(splits)},
          item_tiles,
          static_cast<int>(divide_up(outer, along)) * item_tiles};
}

}  // namespace

template <class T>
void backward_small(const Sizes& sizes, View<const T, 2> grad_output, const Layers<T>& layers, const T* hidden,
                    const Gradients<T>& to, void* stream) {
  const int64_t batch = sizes.batch, features = sizes.features, items = features + 1 + sizes.outputs;
  // More threads where they shorten the sums.
  int count = fewest_threads;
  while (count < most_threads &&
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
  launch_early<backward<T>>("mlp_backward", blocks, count, shared, static_cast<Stream>(stream), from);
}

#define OPSMITH_MLP(T)                                                                                             \
  template void backward_small<T>(const Sizes&, View<const T, 2>, const Layers<T>&, const T*, const Gradients<T>&, \
                                  void*);
OPSMITH_MLP(float16)
OPSMITH_MLP(bfloat16)
OPSMITH_MLP(float)
OPSMITH_MLP(double)
#undef OPSMITH_MLP

}  // namespace opsmith::ops::mlp
