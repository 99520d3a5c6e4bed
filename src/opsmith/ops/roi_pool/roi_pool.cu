// roi_pool and its gradient on a GPU: which kernel serves a call.
#include <opsmith/workspace.h>

#include "gather.cuh"
#include "pool.cuh"
#include "pool_small.cuh"
#include "pool_windows.cuh"

using namespace opsmith;
using namespace opsmith::ops::boxes;
using namespace opsmith::ops::roi_pool;

namespace {

// Channels of a thread that makes a bin of a small box, where they lie apart.
constexpr int small_width = 4;

// Where there are many boxes, windows have the bins that fit them; what is left is made pixel by pixel.
template <int width, bool vectors, class T>
void launch_large(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                  bool inner, const Plan& plan, const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  const bool has_windows = launch_windows<vectors>(features, boxes, pooling, plan, out, argmax, stream);
  const int made = has_windows ? most_of_bin : -1;
  launch_pool<width, vectors>(features, boxes, pooling, inner, made, plan, out, argmax, stream);
}

template <int width, bool vectors, class T>
void launch_forward(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    bool inner, const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  if (!suit_team(features, out, argmax)) {
    launch_large<width, vectors>(features, boxes, pooling, inner, {}, out, argmax, stream);
    return;
  }
  const Workspace<Plan::Pair> room(Plan::pairs(out.size[0], out.size[2], out.size[3]));
  const Plan plan{room.data, static_cast<int>(out.size[2]), static_cast<int>(out.size[3])};
  launch_plan(boxes, pooling, plan, stream);
  constexpr int at_once = vectors ? width : small_width;
  if (argmax) {
    launch_small<at_once, vectors, true>(features, plan, out, argmax, stream);
  } else {
    launch_small<at_once, vectors, false>(features, plan, out, argmax, stream);
  }
  launch_large<width, vectors>(features, boxes, pooling, inner, plan, out, argmax, stream);
}

}  // namespace

// Without `needs_argmax` there is no argmax, and kernels look for values alone.
template <class T>
void roi_pool_sized(View<const T, 4> features, View<const float, 2> boxes, PoolSizes bins, bool needs_argmax,
                    View<T, 4> out, View<int32_t, 4> argmax, Stream stream) {
  const Pooling pooling = read_arguments(bins);
  if (out.numel() == 0) return;
  constexpr int wide = 16 / sizeof(T);
  const bool inner = are_inner(features) && are_inner(out);
  const View<int32_t, 4> places = needs_argmax ? argmax : View<int32_t, 4>{};
  if (inner && are_vectors<wide>(features) && are_vectors<wide>(out) && (!places || are_vectors<wide>(places))) {
    launch_forward<wide, true>(features, boxes, pooling, inner, out, places, stream);
  } else {
    launch_forward<4, false>(features, boxes, pooling, inner, out, places, stream);
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
