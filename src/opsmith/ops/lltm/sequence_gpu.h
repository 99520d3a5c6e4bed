// What the sequence operator's host side (sequence_gpu.cpp) asks of its GPU kernels (scan_*.cu, grid.cu,
// sequence_step.cu).
//
// T is float16, bfloat16, float or double; `stream` is a cudaStream_t or a hipStream_t. All sizes come with the views:
// T steps, a batch of B, S units; the gates are input gate, output gate and candidate side by side, 3*S columns.
#pragma once

#include <opsmith/types.h>
#include <opsmith/view.h>

namespace opsmith::ops::lltm {

template <class T>
struct Scan {
  View<const compute_t<T>, 3> input;  // its part of the gates, without the bias; it may lie where `gates` does
  View<const T, 1> bias;
  View<T, 3> gates;  // the pre-activations
  View<const T, 2> hidden;
  View<const T, 2> cell;
  View<const T, 2> weight;  // of the hidden state: 3*S rows, S columns
  View<T, 3> hiddens;
  View<T, 3> cells;
  View<T, 2> last_cell;
};

template <class T>
struct ScanBackward {
  View<const T, 3> grad_hiddens;
  View<const T, 2> grad_last_cell;
  View<const T, 2> weight;
  View<const T, 3> gates;
  View<const T, 3> cells;
  View<T, 3> grad_gates;
  View<T, 2> grad_hidden;
  View<T, 2> grad_cell;
};

// All steps in one launch; at least one step, one row and one unit. False, with nothing done, where that is not to be
// had: for more than 512 units, for double, on GPUs without large enough clusters of thread blocks, and for batches
// that would keep clusters waiting for each other (ScanShape).
template <class T>
bool scan(const Scan<T>& to, void* stream);
template <class T>
bool scan_backward(const ScanBackward<T>& to, void* stream);

// All steps in one launch of a grid whose blocks wait for each other, for 16-bit types with up to 1,024 units and 64
// rows. grid_room() is the bytes of memory that it takes, and 0 where it is not to be had; `arrivals` is one zero of 32
// bits.
template <class T>
int64_t grid_room(int64_t batch, int64_t state, bool is_backward);
template <class T>
void grid_scan(const Scan<T>& to, void* room, void* arrivals, void* stream);
template <class T>
void grid_scan_backward(const ScanBackward<T>& to, void* room, void* arrivals, void* stream);

// One step after its product, for what does not fit: `product` is the hidden state's part of the gates, and `cell` the
// cell in the type of the arithmetic, which each step brings to its new value.
template <class T>
struct Step {
  View<const compute_t<T>, 2> product;
  View<const compute_t<T>, 2> input;  // as Scan's
  View<const T, 1> bias;
  View<T, 2> gates;
  View<compute_t<T>, 2> cell;
  View<T, 2> hidden;
  View<T, 2> cells;
};

// One step of the backward before its product; `product` is the gradient that the step after sent to this hidden state.
template <class T>
struct StepBackward {
  View<const T, 2> grad_hidden;
  View<const compute_t<T>, 2> product;
  View<compute_t<T>, 2> grad_cell;
  View<const T, 2> gates;
  View<const T, 2> cells;
  View<T, 2> grad_gates;
};

template <class T>
void step(const Step<T>& to, void* stream);
template <class T>
void step_backward(const StepBackward<T>& to, void* stream);

}  // namespace opsmith::ops::lltm
