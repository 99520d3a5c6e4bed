// What the GPU's kernels for a whole LLTM step take: said once, for cell_gpu.cpp, which chooses, and for the .cu
// files.
//
// `stream` is a cudaStream_t or a hipStream_t. What the kernels write is contiguous; what they read lies anyhow.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/kernel.h>

namespace opsmith::ops::lltm {

template <class T>
struct Forward {
  View<const T, 2> input;
  View<const T, 2> hidden;
  View<const T, 2> cell;
  View<const T, 2> weight;
  View<const T, 1> bias;
  View<T, 2> new_hidden;
  View<T, 2> new_cell;
  View<T, 2> gates;
};

// The whole step in one launch, for products that are too small for PyTorch's.
template <class T>
void fused_forward(const Forward<T>& step, void* stream);

// What comes after the product: adds the bias to `gates`, and computes the new state. Reads no input, hidden and
// weight.
template <class T>
void finish_forward(const Forward<T>& step, void* stream);

template <class T>
struct Backward {
  View<const T, 2> grad_new_hidden;
  View<const T, 2> grad_new_cell;
  View<const T, 2> input;
  View<const T, 2> hidden;
  View<const T, 2> weight;
  View<const T, 2> gates;
  View<const T, 2> new_cell;
  View<T, 2> grad_input;
  View<T, 2> grad_hidden;
  View<T, 2> grad_cell;
  View<T, 2> grad_weight;
  View<T, 1> grad_bias;
};

// The largest batch and the largest state that fused_backward takes: it keeps gates' gradients of four units of the
// whole batch, or of four rows with all their units, in shared memory, and is no gain beyond.
constexpr int64_t most_fused = 256;

// All five gradients in one launch.
template <class T>
void fused_backward(const Backward<T>& step, void* stream);

// What comes before the products: the gradients of gates and cell, and [hidden, input] as one matrix.
template <class T>
void start_backward(const Backward<T>& step, View<T, 2> grad_gates, View<T, 2> joined, void* stream);

// The bias's gradient is a sum over the batch. Where there are few units, the batch is cut into this many parts, so
// that all of the GPU has work; each has a row of sums in `partial`, below.
int64_t bias_parts(int64_t batch, int64_t state);

// What comes after the first product: grad_hidden and grad_input, which are one matrix as they come from it, and the
// bias's gradient. `partial` is contiguous [bias_parts, 3*S], and empty where there is one part.
template <class T>
void finish_backward(const Backward<T>& step, View<const T, 2> grad_gates, View<const T, 2> grad_joined,
                     View<compute_t<T>, 2> partial, void* stream);

}  // namespace opsmith::ops::lltm
