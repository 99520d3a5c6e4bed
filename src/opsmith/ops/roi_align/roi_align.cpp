// roi_align and its gradient on the CPU.
#include "cpu.h"

using namespace opsmith;
using namespace opsmith::ops::roi_align;

template <class T>
void roi_align_sized(View<const T, 4> features, View<const float, 2> boxes, int64_t images, int64_t height,
                     int64_t width, int64_t out_height, int64_t out_width, double spatial_scale, int64_t sampling_ratio,
                     bool aligned, View<T, 4> out) {
  pool_level(features, boxes,
             read_arguments(images, height, width, out_height, out_width, spatial_scale, sampling_ratio, aligned), true,
             out);
}

template <class T>
void roi_align_transposed(View<const T, 4> grad_out, View<const float, 2> boxes, int64_t images, int64_t height,
                          int64_t width, int64_t out_height, int64_t out_width, double spatial_scale,
                          int64_t sampling_ratio, bool aligned, View<T, 4> grad_features) {
  spread_level(grad_out, boxes,
               read_arguments(images, height, width, out_height, out_width, spatial_scale, sampling_ratio, aligned),
               grad_features);
}
