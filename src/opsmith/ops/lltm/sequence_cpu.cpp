// An LLTM over a sequence on the CPU.
#include <opsmith/native.h>

#include "sequence_cpu_backward.h"

using namespace opsmith;
using namespace opsmith::ops::lltm;

std::tuple<Tensor, Tensor, Tensor, Tensor> lltm_sequence_cpu(const Tensor& input, const Tensor& hidden,
                                                             const Tensor& cell, const Tensor& weight,
                                                             const Tensor& bias) {
  const int64_t steps = input.size(0), batch = hidden.size(0), units = hidden.size(1);
  const Tensor hiddens = empty_like(input, {steps, batch, units}), last_cell = empty_like(input, {batch, units});
  const Tensor gates = empty_like(input, {steps, batch, 3 * units}), cells = empty_like(input, {steps, batch, units});
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    SequenceForward<T>({view<const T, 3>(input), view<const T, 2>(hidden), view<const T, 2>(cell),
                        view<const T, 2>(weight), view<const T, 1>(bias), view<T, 3>(hiddens), view<T, 2>(last_cell),
                        view<T, 3>(gates), view<T, 3>(cells)})
        .run();
  });
  return {hiddens, last_cell, gates, cells};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lltm_sequence_backward_cpu(
    const Tensor& grad_hiddens, const Tensor& grad_last_cell, const Tensor& input, const Tensor& hidden,
    const Tensor& cell, const Tensor& weight, const Tensor& bias, const Tensor& hiddens, const Tensor& gates,
    const Tensor& cells) {
  const Tensor grad_input = contiguous_like(input), grad_hidden = contiguous_like(hidden);
  const Tensor grad_cell = contiguous_like(cell), grad_weight = contiguous_like(weight),
               grad_bias = contiguous_like(bias);
  with_floating_type(input.scalar_type(), [&](auto element) {
    using T = decltype(element);
    SequenceBackward<T>({view<const T, 3>(grad_hiddens), view<const T, 2>(grad_last_cell), view<const T, 3>(input),
                         view<const T, 2>(hidden), view<const T, 2>(weight), view<const T, 3>(hiddens),
                         view<const T, 3>(gates), view<const T, 3>(cells), view<T, 3>(grad_input),
                         view<T, 2>(grad_hidden), view<T, 2>(grad_cell), view<T, 2>(grad_weight),
                         view<T, 1>(grad_bias)})
        .run();
  });
  return {grad_input, grad_hidden, grad_cell, grad_weight, grad_bias};
}
