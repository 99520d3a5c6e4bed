// From the gradients of the sums to those of pixels, on a GPU.
//
// A pixel's gradient is gathered from its own list and those of the pixels at its left and above it, in a fixed order,
// so there are no atomics and results do not change from run to run.
#pragma once

#include "lists.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

// Adds what the points of one list give to the pixel that is `up` rows below and `left` columns right of the list's.
template <int width, bool vectors, class T>
__device__ void add_list(const Lists<compute_t<T>>& lists, int64_t list, int level, int up, int left,
                         const Channels<width, vectors>& channels, const T* gradients, int64_t query_stride,
                         compute_t<T> (&sum)[width]) {
  using C = compute_t<T>;
  const int end = lists.ends[list], begin = end - lists.counts[list];
#pragma unroll 4
  for (int n = begin; n < end; ++n) {
    const Entry<C> entry = lists.entries[n];
    // The list's pixel is the sample's first corner that is there, which in the first row or column is not the top
    // left.
    const int row = entry.corner() / 2 + up, column = entry.corner() % 2 + left;
    if (entry.level() != level || row > 1 || column > 1) continue;
    const Vector<T, width> gradient = channels.read(gradients + entry.query() * query_stride);
    const C share = entry.weight *
                    ((row == 0 ? C(1) - entry.below : entry.below) * (column == 0 ? C(1) - entry.right : entry.right));
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] += share * static_cast<C>(gradient.item[c]);
  }
}

template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads)
    gather_pixels(Call<T> call, Lists<compute_t<T>> lists, Lanes lanes_of, int64_t pieces, View<const T, 3> grad_out,
                  View<T, 4> grad_value) {
  constexpr int width = lane_width<T>;
  const int items = lanes_of.items(), heads = call.heads(), all = call.channels();
  const int64_t blocks = divide_up(call.pixels(), items);
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t owner = piece / blocks, image = lists.image + owner / heads;
    const int head = static_cast<int>(owner % heads);
    const int64_t pixel = piece % blocks * items + lanes_of.item();
    if (pixel >= call.pixels()) continue;
    for (int channel = lanes_of.lane() * width; channel < all; channel += lanes_of.lanes_each * width) {
      const int own = all - channel < width ? all - channel : width;
      const Channels<width, vectors> from{grad_out.stride[2], own}, to{grad_value.stride[3], own};
      const T* const gradients =
          grad_out.data + image * grad_out.stride[0] + (int64_t{head} * all + channel) * grad_out.stride[2];
      compute_t<T> sum[width] = {};
      for (int l = 0; l < static_cast<int>(call.shapes.size[0]); ++l) {
        const Level level = call.level(l);
        if (level.height <= 0 || level.width <= 0) continue;
        // Where the pixel lies in the level, if it does: levels may have pixels in common.
        const uint64_t place = static_cast<uint64_t>(pixel) - static_cast<uint64_t>(level.start);
        const uint64_t row = place / static_cast<uint64_t>(level.width);
        const uint64_t column = place % static_cast<uint64_t>(level.width);
        if (row >= static_cast<uint64_t>(level.height)) continue;
        for (int corner = 0; corner < 4; ++corner) {
          const int up = corner / 2, left = corner % 2;
          if (row < static_cast<unsigned>(up) || column < static_cast<unsigned>(left)) continue;
          const int64_t listed = pixel - up * level.width - left;
          if (listed < 0) continue;
          add_list<width, vectors>(lists, owner * call.value.size[1] + listed, l, up, left, from, gradients,
                                   grad_out.stride[1], sum);
        }
      }
      to.store(sum, &grad_value(image, pixel, head, channel));
    }
  }
}

template <class T>
void launch_gather(const Call<T>& call, const View<const T, 3>& grad_out, const View<T, 4>& grad_value, Stream stream) {
  constexpr int width = lane_width<T>;
  const Lanes lanes_of = Lanes::of(call.channels(), width);
  const bool vectors = has_vectors(View<const T, 4>(grad_value)) && has_vectors(grad_out, call.channels());
  const int64_t at_once = ListRoom<T>::images_at_once(call);
  const ListRoom<T> room(call, at_once);
  for (int64_t image = 0; image < call.images(); image += at_once) {
    const int64_t images = at_once < call.images() - image ? at_once : call.images() - image;
    const Lists<compute_t<T>> lists = room.list(image, images, stream);
    const int64_t pieces = images * call.heads() * divide_up(call.pixels(), lanes_of.items());
    const unsigned blocks = blocks_for(pieces, 1);
    if (vectors) {
      gather_pixels<T, true><<<blocks, block_threads, 0, stream>>>(call, lists, lanes_of, pieces, grad_out, grad_value);
    } else {
      gather_pixels<T, false>
          <<<blocks, block_threads, 0, stream>>>(call, lists, lanes_of, pieces, grad_out, grad_value);
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
