// An LLTM over a sequence on a GPU: the products that need no order over all steps at once, the rest step by step.
//
// The input's part of the gates is one product before the steps, the gradients of weight, bias and input are products
// after them. What lies between is one launch for the whole sequence where scan_*.cu or grid.cu serves the
// sizes, else a product and a launch of sequence_step.cu for every step.
#include "sequence_gpu.h"
#include "composed.h"

using namespace opsmith;
using namespace opsmith::ops::lltm;

namespace opsmith::ops::lltm {
namespace {

using ops::lltm::composed::columns;

// The type that the arithmetic is done in.
ScalarType wide_type(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

// A copy in that type: what a cell, or its gradient, is from step to step.
Tensor widened(const Tensor& tensor) {
  Tensor result = torch::stable::new_empty(tensor, {tensor.size(0), tensor.size(1)}, wide_type(tensor));
  torch::stable::copy_(result, tensor);
  return result;
}

// A matrix product in that type. Others are added to it before it is rounded to the tensors' type: what cancels in that
// sum, or is too large for float16 before it, must be right.
Tensor wide_product(const Tensor& a, const Tensor& b) {
  if (wide_type(a) == a.scalar_type()) return aten::mm(a, b);
  try {
    return call<1>("aten::mm", "dtype", a, b, wide_type(a))[0];
  } catch (const opsmith::Error&) {
    // PyTorch refuses it where `allow_fp16_accumulation` lets it sum in float16.
    return widened(aten::mm(a, b));
  }
}

Tensor part(Tensor tensor, int64_t dim, int64_t first, int64_t count) {
  return torch::stable::narrow(tensor, dim, first, count);
}

// Steps and batch as one dimension.
Tensor rows(const Tensor& tensor) {
  return torch::stable::reshape(tensor, {tensor.size(0) * tensor.size(1), tensor.size(2)});
}

template <class T>
View<T, 2> at(const View<T, 3>& view, int64_t step) {
  return {view.data + step * view.stride[0], {view.size[1], view.size[2]}, {view.stride[1], view.stride[2]}};
}

Tensor at(const Tensor& tensor, int64_t step) { return torch::stable::select(tensor, 0, step); }

// Calls launch(room, arrivals) with memory for a launch of a whole grid, which may be given back once it is queued.
// False, with nothing done, where there is no such launch.
template <class Launch>
bool run_in_grid(const Tensor& like, int64_t bytes, const Launch& launch) {
  if (bytes == 0) return false;
  const Tensor room = torch::stable::new_empty(like, {bytes}, ScalarType::Byte);
  const Tensor arrivals = torch::stable::new_zeros(like, {1}, ScalarType::Int);
  launch(room.mutable_data_ptr(), arrivals.mutable_data_ptr());
  return true;
}

template <class T>
void run_steps(const ops::lltm::Scan<T>& all, const Tensor& hidden, const Tensor& cell, const Tensor& weight,
               const Tensor& hiddens, Tensor& last_cell, void* stream) {
  using C = compute_t<T>;
  const Tensor state = widened(cell), weight_transposed = aten::transposed(weight);
  for (int64_t t = 0; t < hiddens.size(0); ++t) {
    const Tensor from_hidden = wide_product(t == 0 ? hidden : at(hiddens, t - 1), weight_transposed);
    ops::lltm::step<T>(
        {
            .product = view<const C, 2>(from_hidden),
            .input = at(all.input, t),
            .bias = all.bias,
            .gates = at(all.gates, t),
            .cell = view<C, 2>(state),
            .hidden = at(all.hiddens, t),
            .cells = at(all.cells, t),
        },
        stream);
  }
  torch::stable::copy_(last_cell, state);
}

template <class T>
void run_steps_backward(const Tensor& grad_hiddens, const Tensor& grad_last_cell, const Tensor& weight,
                        const Tensor& gates, const Tensor& cells, const Tensor& grad_gates, Tensor& grad_hidden,
                        Tensor& grad_cell, void* stream) {
  using C = compute_t<T>;
  const Tensor state = widened(grad_last_cell);
  const auto all_grad_hiddens = view<const T, 3>(grad_hiddens), all_gates = view<const T, 3>(gates),
             all_cells = view<const T, 3>(cells);
  const auto all_grad_gates = view<T, 3>(grad_gates);
  Tensor from_next =
      torch::stable::new_zeros(grad_hidden, {grad_hidden.size(0), grad_hidden.size(1)}, wide_type(grad_hidden));
  for (int64_t t = gates.size(0) - 1; t >= 0; --t) {
    ops::lltm::step_backward<T>(
        {
            .grad_hidden = at(all_grad_hiddens, t),
            .product = view<const C, 2>(from_next),
            .grad_cell = view<C, 2>(state),
            .gates = at(all_gates, t),
            .cells = at(all_cells, t),
            .grad_gates = at(all_grad_gates, t),
        },
        stream);
    from_next = wide_product(at(grad_gates, t), weight);
  }
  torch::stable::copy_(grad_hidden, from_next);
  torch::stable::copy_(grad_cell, state);
}

}  // namespace
}  // namespace opsmith::ops::lltm

std::tuple<Tensor, Tensor, Tensor, Tensor> lltm_sequence(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                                         const Tensor& weight, const Tensor& bias) {
  const int64_t steps = input.size(0), batch = input.size(1), state = hidden.size(1);
  const Tensor weight_hidden = columns(weight, 0, state);
  const Tensor weight_input = columns(weight, state, input.size(2));
  const Tensor flat = wide_product(rows(input), aten::transposed(weight_input));
  const Tensor from_input = torch::stable::reshape(flat, {steps, batch, 3 * state});
  // Where both have one type the gates take the place of the input's part.
  const Tensor gates =
      flat.scalar_type() == input.scalar_type() ? from_input : empty_like(input, {steps, batch, 3 * state});
  const Tensor hiddens = empty_like(input, {steps, batch, state}), cells = empty_like(input, {steps, batch, state});
  Tensor last_cell = empty_like(cell, {batch, state});
  if (hiddens.numel() == 0) {
    torch::stable::copy_(last_cell, cell);
    return {hiddens, last_cell, gates, cells};
  }
  void* const stream = current_stream(input.get_device_index());
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const ops::lltm::Scan<T> all{
        .input = view<const compute_t<T>, 3>(from_input),
        .bias = view<const T, 1>(bias),
        .gates = view<T, 3>(gates),
        .hidden = view<const T, 2>(hidden),
        .cell = view<const T, 2>(cell),
        .weight = view<const T, 2>(weight_hidden),
        .hiddens = view<T, 3>(hiddens),
        .cells = view<T, 3>(cells),
        .last_cell = view<T, 2>(last_cell),
    };
    const auto in_grid = [&](void* room, void* arrivals) { ops::lltm::grid_scan(all, room, arrivals, stream); };
    if (!ops::lltm::scan(all, stream) && !run_in_grid(input, ops::lltm::grid_room<T>(batch, state, false), in_grid)) {
      run_steps<T>(all, hidden, cell, weight_hidden, hiddens, last_cell, stream);
    }
  });
  return {hiddens, last_cell, gates, cells};
}

namespace opsmith::ops::lltm {
namespace {

// The hidden state before each step beside the step's input [T*B, S+I]: what a step's product multiplied.
Tensor joined(const Tensor& input, const Tensor& hidden, const Tensor& hiddens) {
  const int64_t steps = input.size(0), batch = input.size(1), state = hidden.size(1), inputs = input.size(2);
  const Tensor result = empty_like(input, {steps, batch, state + inputs});
  const auto put = [&](int64_t first, int64_t count, int64_t column, int64_t width, const Tensor& from) {
    Tensor place = part(part(result, 0, first, count), 2, column, width);
    torch::stable::copy_(place, from);
  };
  put(0, 1, 0, state, torch::stable::unsqueeze(hidden, 0));
  put(1, steps - 1, 0, state, part(hiddens, 0, 0, steps - 1));
  put(0, steps, state, inputs, input);
  return rows(result);
}

}  // namespace
}  // namespace opsmith::ops::lltm

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lltm_sequence_backward(const Tensor& grad_hiddens,
                                                                          const Tensor& grad_last_cell,
                                                                          const Tensor& input, const Tensor& hidden,
                                                                          const Tensor& /*cell*/, const Tensor& weight,
                                                                          const Tensor& /*bias*/, const Tensor& hiddens,
                                                                          const Tensor& gates, const Tensor& cells) {
  const int64_t steps = input.size(0), batch = input.size(1), state = hidden.size(1), inputs = input.size(2);
  const Tensor weight_hidden = columns(weight, 0, state), weight_input = columns(weight, state, inputs);
  const Tensor grad_gates = empty_like(input, {steps, batch, 3 * state});
  Tensor grad_hidden = empty_like(hidden, {batch, state}), grad_cell = empty_like(hidden, {batch, state});
  if (hiddens.numel() == 0) {
    torch::stable::zero_(grad_hidden);
    torch::stable::copy_(grad_cell, grad_last_cell);
    const Tensor grad_input = torch::stable::new_zeros(input, {steps, batch, inputs});
    const Tensor grad_weight = torch::stable::new_zeros(weight, {3 * state, state + inputs});
    return {grad_input, grad_hidden, grad_cell, grad_weight, torch::stable::new_zeros(weight, {3 * state})};
  }
  void* const stream = current_stream(input.get_device_index());
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const ops::lltm::ScanBackward<T> all{
        .grad_hiddens = view<const T, 3>(grad_hiddens),
        .grad_last_cell = view<const T, 2>(grad_last_cell),
        .weight = view<const T, 2>(weight_hidden),
        .gates = view<const T, 3>(gates),
        .cells = view<const T, 3>(cells),
        .grad_gates = view<T, 3>(grad_gates),
        .grad_hidden = view<T, 2>(grad_hidden),
        .grad_cell = view<T, 2>(grad_cell),
    };
    const auto in_grid = [&](void* room, void* arrivals) {
      ops::lltm::grid_scan_backward(all, room, arrivals, stream);
    };
    if (!ops::lltm::scan_backward(all, stream) &&
        !run_in_grid(input, ops::lltm::grid_room<T>(batch, state, true), in_grid)) {
      run_steps_backward<T>(grad_hiddens, grad_last_cell, weight_hidden, gates, cells, grad_gates, grad_hidden,
                            grad_cell, stream);
    }
  });
  const Tensor flat = rows(grad_gates);
  const Tensor grad_input = torch::stable::reshape(aten::mm(flat, weight_input), {steps, batch, inputs});
  const Tensor grad_weight = aten::mm(aten::transposed(flat), joined(input, hidden, hiddens));
  return {grad_input, grad_hidden, grad_cell, grad_weight, aten::sum_rows(flat)};
}
