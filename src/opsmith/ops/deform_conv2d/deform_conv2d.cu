// deform_conv2d on a GPU.
#include "backward_gpu.cuh"
#include "forward_gpu.cuh"

using namespace opsmith;
using namespace opsmith::ops::deform_conv2d;

namespace opsmith::ops::deform_conv2d {
namespace {

// Positions and pixels are counted by 32 bits within an image.
inline void check_sizes(const Convolution& call) {
  constexpr int64_t most = int64_t{1} << 31;
  if (call.positions() >= most || call.height >= most || call.width >= most || call.taps() >= most ||
      call.channels >= most || call.positions() * call.taps() >= most) {
    fail("deform_conv2d() on a GPU takes images of fewer than 2^31 positions; found ", call.out_height, " x ",
         call.out_width, " of ", call.height, " x ", call.width);
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d

template <class T>
void deform_conv2d_sized(View<const T, 4> input, View<const T, 4> offset, View<const T, 4> weight,
                         View<const T, 1> bias, View<const T, 4> mask, Geometry geometry, bool tf32, View<T, 4> out,
                         Stream stream) {
  const Convolution call = read_arguments(input, weight, out, geometry);
  check_sizes(call);
  if (out.numel() == 0) return;
  convolve(call, input, offset, weight, bias, mask, tf32, out, stream);
  check_launch("deform_conv2d_sized");
}

template <class T>
void deform_conv2d_sized_backward(View<const T, 4> grad_out, View<const T, 4> input, View<const T, 4> offset,
                                  View<const T, 4> weight, View<const T, 1>, View<const T, 4> mask, Geometry geometry,
                                  bool tf32, Needed, View<T, 4> grad_input, View<T, 4> grad_offset,
                                  View<T, 4> grad_weight, View<T, 1> grad_bias, View<T, 4> grad_mask, Stream stream) {
  const Convolution call = read_arguments(input, weight, grad_out, geometry);
  check_sizes(call);
  differentiate(call, grad_out, input, offset, weight, mask, tf32,
                Gradients<T>{grad_input, grad_offset, grad_weight, grad_bias, grad_mask}, stream);
  check_launch("deform_conv2d_sized_backward");
}
