// roi_pool and its gradient on a GPU: which kernel serves a call.
#include "gather.cuh"
#include "pool.cuh"
#include "pool_windows.cuh"

using namespace opsmith;
using namespace opsmith::ops::boxes;
using namespace opsmith::ops::roi_pool;

template <class T>
void roi_pool_sized(View<const T, 4> features, View<const float, 2> boxes, PoolSizes bins, View<T, 4> out,
                    View<int32_t, 4> argmax, Stream stream) {
  const Pooling pooling = read_arguments(bins);
  if (out.numel() == 0) return;
  constexpr int wide = 16 / sizeof(T);
  const bool inner = are_inner(features) && are_inner(out);
  const bool vectors = inner && are_vectors<wide>(features) && are_vectors<wide>(out) && are_vectors<wide>(argmax);
  const bool made = vectors ? launch_windows<true>(features, boxes, pooling, out, argmax, stream)
                            : launch_windows<false>(features, boxes, pooling, out, argmax, stream);
  const int small = made ? most_of_bin : -1;
  if (vectors) {
    launch_pool<wide, true>(features, boxes, pooling, inner, small, out, argmax, stream);
  } else {
    launch_pool<4, false>(features, boxes, pooling, inner, small, out, argmax, stream);
  }
  check_launch("roi_pool_sized");
}

template <class T>
void roi_pool_backward(View<const T, 4> grad_out, View<const float, 2> boxes, View<const int32_t, 4> argmax,
                       ImageSizes at, View<T, 4> grad_features, Stream stream) {
  const Pooling pooling =
      read_arguments({at.images, at.height, at.width, grad_out.size[2], grad_out.size[3], at.spatial_scale});
  if (grad_features.numel() == 0) return;
  if (are_inner(grad_out) && are_inner(grad_features)) {
    launch_gather<true>(grad_out, boxes, argmax, pooling, grad_features, stream);
  } else {
    launch_gather<false>(grad_out, boxes, argmax, pooling, grad_features, stream);
  }
  check_launch("roi_pool_backward");
}
