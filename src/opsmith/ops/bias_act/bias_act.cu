// bias_act on a GPU: 16-byte vectors, one pass forward and one backward.
//
// A tensor [N, C, L] is seen in one of two ways. As rows, each of one channel: a block works on one channel, whose bias
// is one number. Or as a matrix whose rows go through all channels (channels_last, linear layers, small planes): a
// thread keeps to a few columns, whose biases it loads once. Either way no vector needs a division by the number of
// channels.
//
// The gradient of the bias is made of sums that each block leaves in a workspace, which a second kernel adds up: double
// precision beyond one thread, in an order that the sizes alone decide.
#include <type_traits>

#include "activations.h"
#include "channel_sums.h"

using namespace opsmith;

namespace {

constexpr int threads = GridSum::threads;
// Blocks enough for some rounds on any GPU; where there are more elements, each thread takes more of them, up to a
// limit that keeps the rounds even and a float's sum short.
constexpr int64_t blocks_wanted = 4096;
constexpr int64_t most_vectors = 16;
// Planes below this are columns of a matrix, where their sizes allow vectors there: as rows they leave threads idle.
constexpr int64_t long_row = 512;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many vectors a thread starts to load before it computes. One of 16 bytes for each of two inputs is enough, and so
// is one of a 32-bit type; a function of one 16-bit input has twice the work for each (see elementwise.h).
template <class T, bool is_backward>
constexpr int at_once = !is_backward && sizeof(T) <= 2 ? 2 : 1;

// For single elements, float64 and odd layouts: the activation is chosen for each element, and compiled once.
template <class C>
struct AnyActivation {
  enum Kind { leaky_relu, relu, tanh, sigmoid, elu, softplus, swish } kind;
  C a, b;

  AnyActivation(LeakyRelu<C> f) : kind(leaky_relu), a(f.alpha), b(0) {}
  AnyActivation(Relu<C>) : kind(relu), a(0), b(0) {}
  AnyActivation(Tanh<C>) : kind(tanh), a(0), b(0) {}
  AnyActivation(Sigmoid<C>) : kind(sigmoid), a(0), b(0) {}
  AnyActivation(Elu<C> f) : kind(elu), a(f.scale), b(f.alpha) {}
  AnyActivation(Softplus<C>) : kind(softplus), a(0), b(0) {}
  AnyActivation(Swish<C>) : kind(swish), a(0), b(0) {}

  template <class F>
  __device__ C with(const F& f) const {
    switch (kind) {
      case leaky_relu:
        return f(LeakyRelu<C>{a});
      case relu:
        return f(Relu<C>{});
      case tanh:
        return f(Tanh<C>{});
      case sigmoid:
        return f(Sigmoid<C>{});
      case elu:
        return f(Elu<C>{a, b});
      case softplus:
        return f(Softplus<C>{});
      default:
        return f(Swish<C>{});
    }
  }
  __device__ C value(C u) const {
    return with([u](auto f) { return f.value(u); });
  }
  __device__ C slope(C u) const {
    return with([u](auto f) { return f.slope(u); });
  }
};

template <class T>
__device__ compute_t<T> bias_of(const View<const T, 1>& b, int64_t channel) {
  return b ? static_cast<compute_t<T>>(b(channel)) : no_bias<compute_t<T>>;
}

// f on one vector; `grad` is not looked at on the way forward. What the results are before rounding goes to `exact`.
template <class T, int width, class F>
__device__ Vector<T, width> apply(const F& f, const Vector<T, width> grad, const Vector<T, width> x,
                                  const compute_t<T> (&bias)[width], compute_t<T> (&exact)[width]) {
  using C = compute_t<T>;
  Vector<T, width> out;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    if constexpr (std::is_invocable_v<F, C, C, C>) {
      exact[k] = f(static_cast<C>(grad.item[k]), static_cast<C>(x.item[k]), bias[k]);
    } else {
      exact[k] = f(static_cast<C>(x.item[k]), bias[k]);
    }
    out.item[k] = static_cast<T>(exact[k]);
  }
  return out;
}

// The vector of a tensor [N, C, L], or of a matrix, that begins at the last index times its width.
template <int width, class T, int rank, class... Index>
__device__ auto& vector_at(const View<T, rank>& tensor, Index... index) {
  using Element = std::conditional_t<std::is_const_v<T>, const Vector<std::remove_const_t<T>, width>, Vector<T, width>>;
  return *reinterpret_cast<Element*>(&tensor(index...));
}

// How a tensor's rows are shared out: a channel has `rows` of `length` vectors, as `parts` blocks take them, `span`
// vectors each.
struct RowPlan {
  int64_t channels, rows, length;
  int64_t parts, span;
  int64_t step_rows, step_columns;  // how far a block's threads go in a round

  RowPlan(int64_t channels, int64_t rows, int64_t length)
      : channels(channels), rows(rows), length(length), step_rows(threads / length), step_columns(threads % length) {
    const int64_t tiles = ceil_div(rows * length, threads);
    const int64_t even = ceil_div(tiles, ceil_div(blocks_wanted, channels));
    const int64_t each = even < most_vectors ? even : most_vectors;
    parts = ceil_div(tiles, each);
    span = each * threads;
  }
};

// out = f(grad, x, b) or f(x, b). Blocks that follow each other have channels that do: of short rows they read memory
// without gaps. `partials`, [channels, parts], may be null.
template <int width, class T, class F>
__global__ void __launch_bounds__(threads) map_rows(F f, RowPlan plan, View<const T, 1> b, View<const T, 3> grad,
                                                    View<const T, 3> x, View<T, 3> out, double* __restrict__ partials) {
  using C = compute_t<T>;
  constexpr bool is_backward = std::is_invocable_v<F, C, C, C>;
  constexpr int count = at_once<T, is_backward>;
  for (int64_t item = blockIdx.x; item < plan.channels * plan.parts; item += gridDim.x) {
    const int64_t channel = item % plan.channels, part = item / plan.channels;
    const int64_t all = plan.rows * plan.length;
    const int64_t end = (part + 1) * plan.span < all ? (part + 1) * plan.span : all;
    C bias[width];
#pragma unroll
    for (int k = 0; k < width; ++k) bias[k] = bias_of(b, channel);
    // One division a thread; from one vector to the next the place goes on by additions.
    int64_t i = part * plan.span + threadIdx.x;
    int64_t row = i / plan.length, column = i % plan.length;
    C sum = 0;
#pragma unroll 1
    for (; i < end; i += count * threads) {
      Vector<T, width> values[count], grads[count];
      int64_t rows[count], columns[count];
#pragma unroll
      for (int j = 0; j < count; ++j) {
        rows[j] = row, columns[j] = column * width;
        if (i + j * threads < end) {
          values[j] = vector_at<width>(x, row, channel, columns[j]);
          if constexpr (is_backward) grads[j] = vector_at<width>(grad, row, channel, columns[j]);
        }
        row += plan.step_rows, column += plan.step_columns;
        if (column >= plan.length) column -= plan.length, ++row;
      }
#pragma unroll
      for (int j = 0; j < count; ++j) {
        if (i + j * threads >= end) break;
        C exact[width];
        vector_at<width>(out, rows[j], channel, columns[j]) = apply(f, grads[j], values[j], bias, exact);
        if constexpr (is_backward) {
#pragma unroll
          for (int k = 1; k < width; ++k) exact[0] += exact[k];
          sum += exact[0];
        }
      }
    }
    if constexpr (is_backward) {
      if (partials == nullptr) continue;
      __syncthreads();  // the block's sum of another item may still be read
      const double total = sum_over_block(static_cast<double>(sum));
      if (threadIdx.x == 0) partials[channel * plan.parts + part] = total;
    }
  }
}

// How a matrix is shared out: `lanes` threads of a block, a power of two, are next to each other in a row, and a block
// takes `span` rows.
struct ColumnPlan {
  int64_t rows, columns;  // columns of vectors
  int64_t per_channel;    // elements of a row that are of one channel, before the next follows
  int lanes;
  int64_t blocks, parts, span;

  ColumnPlan(int64_t rows, int64_t columns, int64_t per_channel)
      : rows(rows), columns(columns), per_channel(per_channel), lanes(1) {
    while (lanes < 32 && lanes < columns) lanes *= 2;
    blocks = ceil_div(columns, lanes);
    const int64_t tiles = ceil_div(rows, threads / lanes);
    const int64_t even = ceil_div(tiles, ceil_div(blocks_wanted, blocks));
    const int64_t each = even < most_vectors ? even : most_vectors;
    parts = ceil_div(tiles, each);
    span = each * (threads / lanes);
  }
};

// The same for a matrix; `partials` is [columns, width, parts].
template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_columns(F f, ColumnPlan plan, View<const T, 1> b, View<const T, 2> grad, View<const T, 2> x, View<T, 2> out,
                double* __restrict__ partials) {
  using C = compute_t<T>;
  constexpr bool is_backward = std::is_invocable_v<F, C, C, C>;
  constexpr int count = at_once<T, is_backward>;
  const int lane = threadIdx.x % plan.lanes, step = threads / plan.lanes;
  for (int64_t item = blockIdx.x; item < plan.blocks * plan.parts; item += gridDim.x) {
    const int64_t column = item % plan.blocks * plan.lanes + lane, part = item / plan.blocks;
    const int64_t end = (part + 1) * plan.span < plan.rows ? (part + 1) * plan.span : plan.rows;
    const bool inside = column < plan.columns;
    C bias[width], sums[width] = {};
    if (inside) {
#pragma unroll
      for (int k = 0; k < width; ++k) bias[k] = bias_of(b, (column * width + k) / plan.per_channel);
#pragma unroll 1
      for (int64_t row = part * plan.span + threadIdx.x / plan.lanes; row < end; row += count * step) {
        Vector<T, width> values[count], grads[count];
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if (row + j * step >= end) break;
          values[j] = vector_at<width>(x, row + j * step, column * width);
          if constexpr (is_backward) grads[j] = vector_at<width>(grad, row + j * step, column * width);
        }
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if (row + j * step >= end) break;
          C exact[width];
          vector_at<width>(out, row + j * step, column * width) = apply(f, grads[j], values[j], bias, exact);
          if constexpr (is_backward) {
#pragma unroll
            for (int k = 0; k < width; ++k) sums[k] += exact[k];
          }
        }
      }
    }
    if constexpr (is_backward) {
      if (partials == nullptr) continue;
      __shared__ double totals[threads][width];
      __syncthreads();  // as above
#pragma unroll
      for (int k = 0; k < width; ++k) totals[threadIdx.x][k] = static_cast<double>(sums[k]);
      for (int half = threads / 2; half >= plan.lanes; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
#pragma unroll
          for (int k = 0; k < width; ++k) totals[threadIdx.x][k] += totals[threadIdx.x + half][k];
        }
      }
      if (inside && threadIdx.x < plan.lanes) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
          partials[(column * width + k) * plan.parts + part] = totals[threadIdx.x][k];
        }
      }
    }
  }
}

// Whether a tensor can be read in vectors along its last dimension.
template <int width, class T, int rank>
bool has_vectors(const View<T, rank>& tensor) {
  bool fits = tensor.stride[rank - 1] == 1 && tensor.size[rank - 1] % width == 0 && is_aligned(tensor.data, 16);
  for (int dim = 0; dim < rank - 1; ++dim) fits = fits && (tensor.size[dim] == 1 || tensor.stride[dim] % width == 0);
  return fits;
}

// A tensor [N, C, L] as a matrix [N, C * L]; it is contiguous, or L is 1.
template <class T>
View<T, 2> as_matrix(const View<T, 3>& tensor) {
  return {tensor.data,
          {tensor.size[0], tensor.size[1] * tensor.size[2]},
          {tensor.stride[0], tensor.size[2] == 1 ? tensor.stride[1] : 1}};
}

// One call of the operator or its gradient, whose `grad` and `grad_b` are null views where there are none.
template <class T>
struct Call {
  const char* op;
  Stream stream;
  View<const T, 1> b;
  View<const T, 3> grad, x;
  View<T, 3> out;
  View<T, 1> grad_b;

  template <int width, class F>
  void run_rows(const F& f) const {
    const RowPlan plan(out.size[1], out.size[0], out.size[2] / width);
    const Workspace<double> partials(grad_b ? plan.channels * plan.parts : 0);
    map_rows<width><<<blocks_for(plan.channels * plan.parts, 1), threads, 0, stream>>>(
        f, plan, b, grad, x, out, grad_b ? partials.data : nullptr);
    finish(partials.data, plan.parts);
  }

  template <int width, class F>
  void run_columns(const F& f) const {
    const View<T, 2> matrix = as_matrix(out);
    const ColumnPlan plan(matrix.size[0], matrix.size[1] / width, out.size[2]);
    const Workspace<double> partials(grad_b ? matrix.size[1] * plan.parts : 0);
    map_columns<width><<<blocks_for(plan.blocks * plan.parts, 1), threads, 0, stream>>>(
        f, plan, b, as_matrix(grad), as_matrix(x), matrix, grad_b ? partials.data : nullptr);
    finish(partials.data, plan.parts * out.size[2]);
  }

  void finish(const double* partials, int64_t terms) const {
    check_launch(op);
    if (!grad_b) return;
    sum_channels<<<blocks_for(grad_b.size[0], 1), threads, 0, stream>>>(partials, terms, grad_b);
    check_launch(op);
  }

  // `vector` is f with the activation compiled in, `single` with any of them.
  template <class Vectorised, class Single>
  void run(const Vectorised& vector, const Single& single) const {
    constexpr int width = 16 / sizeof(T);
    const bool dense = out.is_contiguous() && x.is_contiguous() && (!grad || grad.is_contiguous());
    const bool is_matrix = out.size[2] == 1 || (dense && out.size[2] < long_row);
    if constexpr (sizeof(T) < sizeof(double)) {
      if (is_matrix && has_vectors<width>(as_matrix(out)) && has_vectors<width>(as_matrix(x)) &&
          (!grad || has_vectors<width>(as_matrix(grad)))) {
        return run_columns<width>(vector);
      }
      if (has_vectors<width>(out) && has_vectors<width>(x) && (!grad || has_vectors<width>(grad))) {
        return run_rows<width>(vector);
      }
    }
    is_matrix ? run_columns<1>(single) : run_rows<1>(single);
  }
};

}  // namespace

template <class T>
void bias_activation(View<const T, 3> x, View<const T, 1> b, const char* act, double alpha, double gain,
                     Optional<double> clamp, View<T, 3> y, Stream stream) {
  using C = compute_t<T>;
  const Output<C> output(gain, clamp);
  const Call<T> call{"bias_activation", stream, b, {}, x, y, {}};
  with_activation<C>(act, alpha, [&](auto activation) {
    if (y.numel() == 0) return;
    call.run(Forward<C, decltype(activation)>{activation, output}, Forward<C, AnyActivation<C>>{activation, output});
  });
}

template <class T>
void bias_activation_backward(View<const T, 3> grad_y, View<const T, 3> x, View<const T, 1> b, const char* act,
                              double alpha, double gain, Optional<double> clamp, bool needs_grad_b, View<T, 3> grad_x,
                              View<T, 1> grad_b, Stream stream) {
  using C = compute_t<T>;
  const Output<C> output(gain, clamp);
  const Call<T> call{"bias_activation_backward", stream, b, grad_y, x, grad_x, needs_grad_b ? grad_b : View<T, 1>{}};
  with_activation<C>(act, alpha, [&](auto activation) {
    if (grad_x.numel() == 0) return call.finish(nullptr, 0);
    call.run(Backward<C, decltype(activation)>{activation, output}, Backward<C, AnyActivation<C>>{activation, output});
  });
}
