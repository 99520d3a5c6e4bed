// roi_align and its gradient on a GPU: which kernel serves a call.
#include "pool.cuh"
#include "pool_planes.cuh"
#include "spread.cuh"

using namespace opsmith;
using namespace opsmith::ops::boxes;
using namespace opsmith::ops::roi_align;

template <class T>
void roi_align_sized(View<const T, 4> features, View<const float, 2> boxes, Sampling sampling, View<T, 4> out,
                     Stream stream) {
  const Pooling pooling = read_arguments(sampling);
  if (out.numel() == 0) return;
  constexpr int wide = 16 / sizeof(T);
  const bool inner = are_inner(features) && are_inner(out);
  if (inner && are_vectors<wide>(features) && are_vectors<wide>(out)) {
    launch_pool<wide, true>(OneMap<T>{features, pooling}, boxes, inner, out, stream);
  } else if (inner || !launch_pool_planes(features, pooling, boxes, out, stream)) {
    launch_pool<4, false>(OneMap<T>{features, pooling}, boxes, inner, out, stream);
  }
  check_launch("roi_align_sized");
}

template <class T>
void roi_align_transposed(View<const T, 4> grad_out, View<const float, 2> boxes, Sampling sampling,
                          View<T, 4> grad_features, Stream stream) {
  spread_level(grad_out, boxes, read_arguments(sampling), grad_features, stream);
  check_launch("roi_align_transposed");
}
