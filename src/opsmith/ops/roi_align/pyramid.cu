// roi_align of a feature pyramid on a GPU: all levels in one launch. The gradient takes one for each level: it makes
// images, and those of the levels have nothing in common.
#include "pool.cuh"
#include "pyramid.h"
#include "spread.cuh"

using namespace opsmith;
using namespace opsmith::ops::boxes;
using namespace opsmith::ops::roi_align;

namespace opsmith::ops::roi_align {
namespace {

template <class T>
struct Pyramid {
  View<const T, 4> map[most_levels];
  Levels levels;

  __device__ Roi find(const View<const float, 2>& boxes, int64_t k, View<const T, 4>& features) const {
    const int level = levels.level_of(boxes, k);
    features = map[level];
    return read_roi(boxes, k, levels.level[level]);
  }
};

}  // namespace
}  // namespace opsmith::ops::roi_align

template <class T>
void roi_align_pyramid_sized(View<const T, 4> p0, View<const T, 4> p1, View<const T, 4> p2, View<const T, 4> p3,
                             View<const float, 2> boxes, PyramidSizes sizes, List<double> scales, List<double> areas,
                             int64_t sampling_ratio, bool aligned, View<T, 4> out, Stream stream) {
  const Levels levels = read_levels(sizes, scales, areas, sampling_ratio, aligned);
  if (out.numel() == 0) return;
  constexpr int wide = 16 / sizeof(T);
  const Pyramid<T> pyramid{{p0, p1, p2, p3}, levels};
  bool inner = are_inner(out), vectors = are_vectors<wide>(out);
  for (const View<const T, 4>& map : pyramid.map) {
    if (map.numel() == 0) continue;  // a level that there is not
    inner = inner && are_inner(map);
    vectors = vectors && are_vectors<wide>(map);
  }
  if (inner && vectors) {
    launch_pool<wide, true>(pyramid, boxes, inner, out, stream);
  } else {
    launch_pool<4, false>(pyramid, boxes, inner, out, stream);
  }
  check_launch("roi_align_pyramid_sized");
}

template <class T>
void roi_align_pyramid_transposed(View<const T, 4> grad_out, View<const float, 2> boxes, PyramidSizes sizes,
                                  List<double> scales, List<double> areas, int64_t sampling_ratio, bool aligned,
                                  View<T, 4> grad_p0, View<T, 4> grad_p1, View<T, 4> grad_p2, View<T, 4> grad_p3,
                                  Stream stream) {
  const Levels levels = read_levels(sizes, scales, areas, sampling_ratio, aligned);
  const View<T, 4> grads[most_levels] = {grad_p0, grad_p1, grad_p2, grad_p3};
  for (int i = 0; i < most_levels; ++i) spread_level(grad_out, boxes, levels.level[i], grads[i], stream);
  check_launch("roi_align_pyramid_transposed");
}
