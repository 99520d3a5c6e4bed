// A small perceptron on a GPU, in one kernel. All sums are taken in a fixed order.
#include <opsmith/early_launch.h>
#include <opsmith/lanes.h>

#include <type_traits>

#include "mlp_device.cuh"

namespace opsmith::ops::mlp {
namespace {

constexpr int most_threads = 1024;  // of a block

// The sum of `value` over the `lanes` neighbours of a thread, lanes a power of two; all of a warp's threads call it.
template <class C>
__device__ C sum_over_lanes(C value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += shuffle_xor(value, distance);
  }
  return value;
}

// How many threads share a sum of the forward: 2 to the power of these.
struct Lanes {
  int hidden;
  int output;
};

// Factors of the second layer that a thread fetches ahead of their use.
constexpr int ahead = 4;

// A block does `rows` rows of the batch: first their hidden units, then their outputs. `width` divides the features.
template <int width, class T>
__global__ void __launch_bounds__(most_threads) forward(Sizes sizes, Layers<T> layers, T* hidden, T* output, int rows,
                                                        Lanes lanes, Divisor by_units, Divisor by_outputs) {
  using C = compute_t<T>;
  using Load = Vector<T, width>;
  const int first = blockIdx.x * rows;
  if (sizes.batch - first < rows) rows = sizes.batch - first;
  C* const activation = shared_memory<C>();  // [rows][units]
  const int hidden_lanes = 1 << lanes.hidden, output_lanes = 1 << lanes.output;
  const int hidden_lane = threadIdx.x & (hidden_lanes - 1), output_lane = threadIdx.x & (output_lanes - 1);
  wait_for_earlier_kernels();

  // What an output needs of the second layer is on its way while the hidden units are computed: whatever is read after
  // they are there is waited for once more, and waiting for memory is what a small kernel does most of its time.
  struct Output {
    int index;
    bool exists;
    const C* activations;
    const T* weights;
    T first[ahead];
    T bias;
  } own;
  const auto fetch = [&](int begin) {
    own.index = begin + (threadIdx.x >> lanes.output);
    own.exists = own.index < rows * sizes.outputs;
    const int row = own.exists ? by_outputs.quotient(own.index) : 0,
              out = own.exists ? own.index - row * sizes.outputs : 0;
    own.activations = activation + row * sizes.units;
    own.weights = layers.weight2 + out * sizes.units;
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int unit = output_lane + i * output_lanes;
      if (own.exists && unit < sizes.units) own.first[i] = own.weights[unit];
    }
    if (own.exists) own.bias = layers.bias2[out];
  };
  fetch(0);

  for (int begin = 0; begin < rows * sizes.units; begin += blockDim.x >> lanes.hidden) {  // all, for the shuffle
    const int index = begin + (threadIdx.x >> lanes.hidden);
    const bool exists = index < rows * sizes.units;
    const int row = exists ? by_units.quotient(index) : 0, unit = exists ? index - row * sizes.units : 0;
    const T* const x = layers.input + (first + row) * sizes.features;
    const T* const weights = layers.weight1 + unit * sizes.features;
    const C bias = static_cast<C>(layers.bias1[unit]);
    C sum = 0;
#pragma unroll 2
    for (int k = hidden_lane * width; k < sizes.features; k += width * hidden_lanes) {
      const Load left = *reinterpret_cast<const Load*>(x + k), right = *reinterpret_cast<const Load*>(weights + k);
#pragma unroll
      for (int i = 0; i < width; ++i) sum += static_cast<C>(left.item[i]) * static_cast<C>(right.item[i]);
    }
    sum = sum_over_lanes(sum, hidden_lanes) + bias;
    if (sum < C(0)) sum = C(0);  // a NaN stays one
    if (exists && hidden_lane == 0) {
      activation[index] = sum;
      hidden[first * sizes.units + index] = static_cast<T>(sum);
    }
  }
  __syncthreads();
  const int step = blockDim.x >> lanes.output;
  for (int begin = 0; begin < rows * sizes.outputs; begin += step) {
    if (begin > 0) fetch(begin);
    C sum = 0;
    if (own.exists) {
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const int unit = output_lane + i * output_lanes;
        if (unit < sizes.units) sum += own.activations[unit] * static_cast<C>(own.first[i]);
      }
#pragma unroll 4
      for (int unit = output_lane + ahead * output_lanes; unit < sizes.units; unit += output_lanes) {
        sum += own.activations[unit] * static_cast<C>(own.weights[unit]);
      }
    }
    sum = sum_over_lanes(sum, output_lanes) + static_cast<C>(own.bias);
    if (own.exists && output_lane == 0) output[first * sizes.outputs + own.index] = static_cast<T>(sum);
  }
}

template <class T>
constexpr int widest = 16 / sizeof(T);

// Loads of a row of weights that one thread of the forward does.
constexpr int loads_per_lane = 2;

}  // namespace

template <class T>
void forward_small(const Sizes& sizes, const Layers<T>& layers, T* hidden, T* output, void* stream) {
  if (sizes.batch == 0) return;
  const bool is_vectorised =
      sizes.features % widest<T> == 0 && is_aligned(layers.input, 16) && is_aligned(layers.weight1, 16);
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
  const auto launch = [&](auto width) {
    launch_early<forward<decltype(width)::value, T>>(
        "mlp", static_cast<unsigned>(divide_up(sizes.batch, rows)), count, shared, static_cast<Stream>(stream), sizes,
        layers, hidden, output, static_cast<int>(rows), lanes, Divisor(sizes.units), Divisor(sizes.outputs));
  };
  is_vectorised ? launch(std::integral_constant<int, widest<T>>()) : launch(std::integral_constant<int, 1>());
}

#define OPSMITH_MLP(T) template void forward_small<T>(const Sizes&, const Layers<T>&, T*, T*, void*);
OPSMITH_MLP(float16)
OPSMITH_MLP(bfloat16)
OPSMITH_MLP(float)
OPSMITH_MLP(double)
#undef OPSMITH_MLP

}  // namespace opsmith::ops::mlp
