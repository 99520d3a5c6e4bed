// What mlp.cpp, which a host compiler reads, launches of the kernels in mlp.cu.
#pragma once

#include <opsmith/kernel.h>

namespace perceptron {

using opsmith::compute_t;
using opsmith::View;

template <class T>
struct Layers {
  View<const T, 2> input;    // [B F]
  View<const T, 2> weight1;  // [H F]
  View<const T, 1> bias1;
  View<const T, 2> weight2;  // [O H]
  View<const T, 1> bias2;
};

// A gradient that is not needed is a view without elements.
template <class T>
struct Gradients {
  View<T, 2> input;
  View<T, 2> weight1;
  View<T, 1> bias1;
  View<T, 2> weight2;
  View<T, 1> bias2;
};

// hidden = relu(input weight1^T + bias1), output = hidden weight2^T + bias2, in one kernel.
template <class T>
void forward_small(const Layers<T>& layers, View<T, 2> hidden, View<T, 2> output, void* stream);

// All gradients in one kernel. It reads neither bias.
template <class T>
void backward_small(View<const T, 2> grad_output, const Layers<T>& layers, View<const T, 2> hidden,
                    const Gradients<T>& to, void* stream);

// Rows whose sums are one row of `partial`, below.
constexpr int64_t slab_rows = 128;

// grad_hidden = 0 where hidden <= 0, in place, and partial[k] = the sums of the columns of both matrices over the rows
// of slab k: [slabs, H + O]. grad_hidden is contiguous.
template <class T>
void mask_and_sum(View<T, 2> grad_hidden, View<const T, 2> hidden, View<const T, 2> grad_output,
                  View<compute_t<T>, 2> partial, void* stream);

// The sums over all slabs: grad_bias1 from the first H columns, grad_bias2 from the others.
template <class T>
void sum_slabs(View<const compute_t<T>, 2> partial, View<T, 1> grad_bias1, View<T, 1> grad_bias2, void* stream);

}  // namespace perceptron
