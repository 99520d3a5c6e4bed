// deform_conv2d on the CPU: without the matrix of all samples that the textbook makes.
#include "backward_cpu.h"
#include "forward_cpu.h"

using namespace opsmith;
using namespace opsmith::ops::deform_conv2d;

template <class T>
void deform_conv2d_sized(View<const T, 4> input, View<const T, 4> offset, View<const T, 4> weight,
                         View<const T, 1> bias, View<const T, 4> mask, Geometry geometry, bool, View<T, 4> out) {
  const Convolution call = read_arguments(input, weight, out, geometry);
  if (out.numel() > 0) convolve(call, input, offset, weight, bias, mask, out);
}

template <class T>
void deform_conv2d_sized_backward(View<const T, 4> grad_out, View<const T, 4> input, View<const T, 4> offset,
                                  View<const T, 4> weight, View<const T, 1>, View<const T, 4> mask, Geometry geometry,
                                  bool, Needed, View<T, 4> grad_input, View<T, 4> grad_offset, View<T, 4> grad_weight,
                                  View<T, 1> grad_bias, View<T, 4> grad_mask) {
  const Convolution call = read_arguments(input, weight, grad_out, geometry);
  const Gradients<T> to{grad_input, grad_offset, grad_weight, grad_bias, grad_mask};
  if (grad_input.numel() + grad_offset.numel() + grad_weight.numel() + grad_mask.numel() > 0) {
    Backward<T>(call, grad_out, input, offset, weight, mask, to).run();
  }
  if (grad_bias.numel() > 0) sum_outputs(grad_out, grad_bias);
}
