// The backward on a GPU: in two launches that overlap where there are few points, else by lists of them.
#pragma once

#include <opsmith/early_launch.h>

#include "gather.cuh"
#include "ranges.cuh"
#include "slopes.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

// Of a level, one image and one head: so many that looking for them costs each range of pixels less than lists would.
constexpr int64_t most_looked_through = 8192;
// A few points have a block to themselves, so that a decoder's blocks are enough for a GPU.
constexpr int few_together = 4;

// What find_slopes does, where there are few points. Pixels do not wait for it.
template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads) find_few_slopes(Call<T> call, Slopes<T> slopes) {
  __shared__ Table<compute_t<T>> table;
  let_next_kernel_come_up();
  for (int64_t piece = blockIdx.x; piece < slopes.pieces; piece += gridDim.x) {
    slopes.template find<few_together, vectors>(call, piece, table);
  }
}

// It needs nothing of the kernel before it, and waits in the end, for those behind it that wait for this one.
template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads, 4) gather_ranges(Call<T> call, Ranges<T> ranges, unsigned pieces) {
  __shared__ RangeRoom<compute_t<T>> room;
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    ranges.template gather<vectors>(call, piece, room);
  }
  wait_for_earlier_kernels();
}

template <class T, bool vectors>
void launch_few(const Call<T>& call, const Slopes<T>& slopes, const Ranges<T>& ranges, unsigned slope_pieces,
                unsigned range_pieces, Stream stream) {
  const unsigned blocks = blocks_for(range_pieces, 1);
  if (slope_pieces == 0) {
    gather_ranges<T, vectors><<<blocks, block_threads, 0, stream>>>(call, ranges, range_pieces);
    return;
  }
  find_few_slopes<T, vectors><<<blocks_for(slope_pieces, 1), block_threads, 0, stream>>>(call, slopes);
  if (range_pieces == 0) return;
  launch_early<gather_ranges<T, vectors>>("ms_deform_attn_sampled_backward", blocks, block_threads, 0, stream, call,
                                          ranges, range_pieces);
}

template <class T>
void launch_slopes(const Call<T>& call, const Slopes<T>& slopes, Stream stream) {
  const unsigned blocks = blocks_for(slopes.pieces, 1);
  if (has_vectors(call.value) && has_vectors(slopes.grad_out, call.channels())) {
    find_slopes<T, true><<<blocks, block_threads, 0, stream>>>(call, slopes);
  } else {
    find_slopes<T, false><<<blocks, block_threads, 0, stream>>>(call, slopes);
  }
}

// What is not needed has no elements.
template <class T>
void launch_backward(const Call<T>& call, const View<const T, 3>& grad_out, const View<T, 4>& grad_value,
                     View<T, 6> grad_locations, View<T, 5> grad_weights, Stream stream) {
  const bool needs_value = grad_value.numel() > 0;
  const bool needs_slopes = grad_locations.numel() + grad_weights.numel() > 0;
  // The kernel for slopes sees by their addresses what is not needed.
  if (grad_locations.numel() == 0) grad_locations.data = nullptr;
  if (grad_weights.numel() == 0) grad_weights.data = nullptr;
  const Slopes<T> slopes(call, grad_out, grad_locations, grad_weights, few_together);
  const Ranges<T> ranges(call, grad_out, grad_value);
  const int64_t slope_pieces = needs_slopes ? slopes.pieces : 0, range_pieces = needs_value ? ranges.pieces() : 0;
  if (slope_pieces + range_pieces == 0) return;
  const int64_t points = int64_t{call.queries()} * call.points();
  if (points <= most_looked_through && LevelPoints<T>::are_few(call, grad_out) && slope_pieces < int64_t{1} << 31 &&
      range_pieces < int64_t{1} << 31) {
    const bool vectors = has_vectors(call.value) && has_vectors(grad_out, call.channels()) &&
                         (!needs_value || has_vectors(View<const T, 4>(grad_value)));
    const auto launch = vectors ? launch_few<T, true> : launch_few<T, false>;
    launch(call, slopes, ranges, static_cast<unsigned>(slope_pieces), static_cast<unsigned>(range_pieces), stream);
    return;
  }
  if (needs_value) launch_gather(call, grad_out, grad_value, stream);
  if (needs_slopes) {
    launch_slopes(call, Slopes<T>(call, grad_out, grad_locations, grad_weights, call.taps()), stream);
  }
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
