// roi_align of a feature pyramid and its gradient on the CPU: level by level.
#include "pyramid.h"
#include "cpu.h"

using namespace opsmith;
using namespace opsmith::ops::roi_align;

template <class T>
void roi_align_pyramid_sized(View<const T, 4> p0, View<const T, 4> p1, View<const T, 4> p2, View<const T, 4> p3,
                             View<const float, 2> boxes, PyramidSizes sizes, List<double> scales, List<double> areas,
                             int64_t sampling_ratio, bool aligned, View<T, 4> out) {
  const Levels levels = read_levels(sizes, scales, areas, sampling_ratio, aligned);
  const View<const T, 4> maps[most_levels] = {p0, p1, p2, p3};
  for (int i = 0; i < most_levels; ++i) pool_level(maps[i], boxes, levels.level[i], i == 0, out);
}

template <class T>
void roi_align_pyramid_transposed(View<const T, 4> grad_out, View<const float, 2> boxes, PyramidSizes sizes,
                                  List<double> scales, List<double> areas, int64_t sampling_ratio, bool aligned,
                                  View<T, 4> grad_p0, View<T, 4> grad_p1, View<T, 4> grad_p2, View<T, 4> grad_p3) {
  const Levels levels = read_levels(sizes, scales, areas, sampling_ratio, aligned);
  const View<T, 4> grads[most_levels] = {grad_p0, grad_p1, grad_p2, grad_p3};
  for (int i = 0; i < most_levels; ++i) spread_level(grad_out, boxes, levels.level[i], grads[i]);
}
