// bias_act on a GPU: 16-byte vectors, one pass forward and one backward.
//
// A tensor [N, C, L] is seen in one of two ways. As rows, each of one channel: a block works on one channel, whose bias
// is one number. Or as a matrix whose rows go through all channels (channels_last, linear layers, small planes): a
// thread keeps to a few columns, whose biases it loads once. Either way no vector needs a division by the number of
// channels. Forward, contiguous tensors have kernels of their own, in which a thread has one vector.
//
// The gradient of the bias is made of sums that each block leaves in a workspace, which a second kernel adds up: double
// precision beyond one thread, in an order that the sizes alone decide.
#include "../_filters/channel_sums.cuh"
#include "columns.cuh"
#include "dense.cuh"
#include "rows.cuh"

using namespace opsmith;
using namespace opsmith::ops::bias_act;
using namespace opsmith::ops::filters;

namespace opsmith::ops::bias_act {
namespace {

// Planes below this are columns of a matrix, where their sizes allow vectors there: as rows they leave threads idle.
constexpr int64_t long_row = 512;

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
    const RowPlan plan(out.size[1], out.size[0], out.size[2] / width, most_vectors<T, F>, !!grad_b);
    const Workspace<double> partials(grad_b ? plan.channels * plan.parts() : 0);
    map_rows<width><<<grid_of(plan.pieces, plan.channels, plan.groups), threads, 0, stream>>>(
        f, plan, b, grad, x, out, grad_b ? partials.data : nullptr);
    finish(partials.data, plan.parts());
  }

  template <int width, class F>
  void run_columns(const F& f) const {
    const View<T, 2> matrix = as_matrix(out);
    const ColumnPlan plan(matrix.size[0], matrix.size[1] / width, out.size[2],
                          grad_b ? most_summed : most_vectors<T, F>);
    const Workspace<double> partials(grad_b ? matrix.size[1] * plan.parts : 0);
    map_columns<width><<<grid_of(plan.blocks, plan.parts), threads, 0, stream>>>(
        f, plan, b, as_matrix(grad), as_matrix(x), matrix, grad_b ? partials.data : nullptr);
    finish(partials.data, plan.parts * out.size[2]);
  }

  // Whether the kernels of dense.cuh can do it, and have.
  template <int width, class F>
  bool run_dense(const F& f, bool is_matrix) const {
    constexpr int64_t most_blocks = 65535;  // that a grid has along y and z
    const int64_t vectors = out.numel() / width, length = out.size[2] / width, pieces = divide_up(length, threads);
    const auto* const from = reinterpret_cast<const Vector<T, width>*>(x.data);
    auto* const to = reinterpret_cast<Vector<T, width>*>(out.data);
    if (vectors > INT32_MAX) return false;
    if (is_matrix) {
      if (out.size[2] != 1 || (b && !has_vectors<width>(b))) return false;
      const auto* const biases = reinterpret_cast<const Vector<T, width>*>(b.data);
      map_dense_columns<width><<<grid_of(divide_up(vectors, threads), 1), threads, 0, stream>>>(
          f, static_cast<unsigned>(vectors), static_cast<unsigned>(out.size[1] / width), biases, from, to);
    } else {
      const bool is_full = pieces * threads <= length + length / 4;  // few threads have nothing to do
      if (!is_full || out.size[1] > most_blocks || out.size[0] > most_blocks) return false;
      map_dense_rows<width><<<grid_of(pieces, out.size[1], out.size[0]), threads, 0, stream>>>(
          f, static_cast<unsigned>(length), b, from, to);
    }
    check_launch(op);
    return true;
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
      const bool has_columns = is_matrix && has_vectors<width>(as_matrix(out)) && has_vectors<width>(as_matrix(x)) &&
                               (!grad || has_vectors<width>(as_matrix(grad)));
      const bool has_rows = has_vectors<width>(out) && has_vectors<width>(x) && (!grad || has_vectors<width>(grad));
      if constexpr (!is_backward<T, Vectorised>) {
        if (dense && (has_columns || (has_rows && !is_matrix)) && run_dense<width>(vector, is_matrix)) return;
      }
      if (has_columns) return run_columns<width>(vector);
      if (has_rows) return run_rows<width>(vector);
    }
    is_matrix ? run_columns<1>(single) : run_rows<1>(single);
  }
};

}  // namespace
}  // namespace opsmith::ops::bias_act

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
