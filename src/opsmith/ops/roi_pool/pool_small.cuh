// roi_pool on a GPU, for calls most of whose boxes are small: a thread makes one bin of several channels.
//
// What a thread works out of its bin is little against reading a few pixels only if it is done once for many channels,
// and plan.cuh has done most of it. The blocks of all boxes take some channels before the next ones, so that what boxes
// have in common is read from the second-level cache; what bins have in common, from the first-level one.
#pragma once

#include "team.cuh"

namespace opsmith::ops::roi_pool {
namespace {

// Does nothing where the plan is for large boxes. Without `has_places` there is no argmax.
template <int width, bool vectors, bool has_places, class T>
__global__ void __launch_bounds__(small_threads, (small_blocks<width, T>))
    pool_small(View<const T, 4> features, Plan plan, Team team, int channels, T* out, int32_t* argmax) {
  wait_for_earlier_kernels();
  if (plan.is_of_large()) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int slot = vectors ? thread % small_slots : team.of_bins.of(thread);
  const int first_bin = vectors ? thread / small_slots : thread - slot * team.bins;
  if (slot >= team.slots) return;
  const int64_t k = blockIdx.x;
  const PlannedBox& box = plan.box(k);
  const T* const image = features.data + box.image * features.stride[0];
  const int at_once = box.at_once;
  // From a thread's channel to its next one; those of other slots lie between them.
  const int beside = vectors ? 1 : team.slots;
  const int chunk = static_cast<int>(blockIdx.y) * team.channels;
  const int begin = chunk + slot * (vectors ? width : 1), end = min(chunk + team.channels, channels);
  // Without vectors there is a thread for each bin.
#pragma unroll 1
  for (int bin = first_bin; bin < team.bins; bin += vectors ? small_threads / small_slots : small_threads) {
    const int i = team.of_columns.of(bin), j = bin - i * plan.columns;
    const BinPixels pixels{plan.row(k, i), plan.column(k, j), team.plane, team.image_width};
#pragma unroll 1
    for (int channel = begin; channel < end; channel += team.slots * width) {
      const auto is_there = [&](int c) { return channel + c * beside < end; };
      const ChannelPlanes<width, vectors, T> planes(image + channel * features.stride[1], beside * features.stride[1],
                                                    is_there);
      std::conditional_t<has_places, LargestPixels<width, T>, LargestValues<width, T>> found;
      find_first_largest(planes, pixels, at_once, found);
      write_results<vectors>(found, out + k * team.next_box, argmax + k * team.next_box, team.result(channel, i, j),
                             beside * team.next_channel, is_there);
    }
  }
}

template <int width, bool vectors, bool has_places, class T>
void launch_small(const View<const T, 4>& features, const Plan& plan, const View<T, 4>& out,
                  const View<int32_t, 4>& argmax, Stream stream) {
  const Team team = make_team<width, vectors>(features, out);
  launch_early<pool_small<width, vectors, has_places, T>>("roi_pool_sized", grid_of(team, out.size[0], out.size[1]),
                                                          small_threads, 0, stream, features, plan, team,
                                                          static_cast<int>(out.size[1]), out.data, argmax.data);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
