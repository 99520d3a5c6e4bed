// roi_align and its gradient on the CPU.
#include "cpu.h"

using namespace opsmith;
using namespace opsmith::ops::roi_align;

template <class T>
void roi_align_sized(View<const T, 4> features, View<const float, 2> boxes, Sampling sampling, View<T, 4> out) {
  pool_level(features, boxes, read_arguments(sampling), true, out);
}

template <class T>
void roi_align_transposed(View<const T, 4> grad_out, View<const float, 2> boxes, Sampling sampling,
                          View<T, 4> grad_features) {
  spread_level(grad_out, boxes, read_arguments(sampling), grad_features);
}
