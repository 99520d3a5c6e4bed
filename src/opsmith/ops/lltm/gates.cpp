// The pointwise part of an LLTM step on the CPU: the kernels lltm_gates and lltm_gates_backward.
#include "pointwise_cpu.h"

using namespace opsmith;

template <class T>
void lltm_gates(View<const T, 2> gates, View<const T, 2> cell, View<T, 2> hidden, View<T, 2> new_cell) {
  ops::lltm::forward_gates(gates, cell, hidden, new_cell);
}

template <class T>
void lltm_gates_backward(View<const T, 2> grad_hidden, View<const T, 2> grad_new_cell, View<const T, 2> gates,
                         View<const T, 2> new_cell, View<T, 2> grad_gates, View<T, 2> grad_cell) {
  ops::lltm::backward_gates(grad_hidden, grad_new_cell, gates, new_cell, grad_gates, grad_cell);
}
