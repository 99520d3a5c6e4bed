// bias_act on a GPU: 16-byte vectors, one pass forward and one backward.
//
// A tensor [N, C, L] is seen in one of two ways. As rows, each of one channel: a block works on one channel, whose bias
// is one number. Or as a matrix whose rows go through all channels (channels_last, linear layers, small planes): a
// thread keeps to a few columns, whose biases it loads once. Either way no vector needs a division by the number of
// channels.
//
// The gradient of the bias is made of sums that each block leaves in a workspace, which a second kernel adds up: double
// precision beyond one thread, in an order that the sizes alone decide.
#include "channel_sums.h"
#include "columns.h"
#include "rows.h"

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
