// roi_pool and its gradient on a GPU: which kernel serves a call.
#include <opsmith/workspace.h>

#include "gather.cuh"
#include "pool.cuh"
#include "pool_large.cuh"
#include "pool_small.cuh"

using namespace opsmith;
using namespace opsmith::ops::boxes;
using namespace opsmith::ops::roi_pool;

namespace {

// Channels of a thread that makes a bin of a small box, where they lie apart.
constexpr int small_width = 4;

// With a plan. Tables of squares take memory, and where that is too much all boxes are made as small ones.
template <int width, bool vectors, bool has_places, class T>
void launch_planned(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  const SquareGroups groups = group_squares<vectors>(features, has_places);
  const bool has_squares = groups.groups > 0;
  Plan plan{nullptr, static_cast<int>(out.size[0]), static_cast<int>(out.size[2]), static_cast<int>(out.size[3])};
  const Workspace<Plan::Pair> room(plan.pairs());
  plan.data = room.data;
  const float large_work = has_squares ? least_large_work<vectors, has_places>(features, groups) : INFINITY;
  launch_plan(boxes, pooling, plan, large_work, stream);
  launch_small<vectors ? width : small_width, vectors, has_places>(features, plan, out, argmax, stream);
  if (has_squares) launch_large<vectors, has_places>(features, plan, groups, out, argmax, stream);
}

template <int width, bool vectors, class T>
void launch_forward(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                    bool inner, const View<T, 4>& out, const View<int32_t, 4>& argmax, Stream stream) {
  if (!suit_team(features, out, argmax)) {
    launch_pool<width, vectors>(features, boxes, pooling, inner, out, argmax, stream);
  } else if (argmax) {
    launch_planned<width, vectors, true>(features, boxes, pooling, out, argmax, stream);
  } else {
    launch_planned<width, vectors, false>(features, boxes, pooling, out, argmax, stream);
  }
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
