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
__device__ void add_list(const Lists<compute_t<T>>& lists, int list, int level, int up, int left,
                         const Channels<width, vectors>& channels, const T* gradients, int64_t query_stride,
                         compute_t<T> (&sum)[width]) {
  using C = compute_t<T>;
  const int end = lists.ends[list], begin = end - lists.counts[list];
#pragma unroll 4
  for (int n = begin; n < end; ++n) {
    const Entry<C> entry = lists.entries[n];
    // The list's pixel is the sample's first corner that is there, which in the first row or column is not the top
    // left.
    const int corner = Packing::corner(entry.packed), row = corner / 2 + up, column = corner % 2 + left;
    if (row > 1 || column > 1 || lists.packing.level(entry.packed) != level) continue;
    const Vector<T, width> gradient = channels.read(gradients + lists.packing.query(entry.packed) * query_stride);
    const C share = entry.weight *
                    ((row == 0 ? C(1) - entry.below : entry.below) * (column == 0 ? C(1) - entry.right : entry.right));
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] += share * static_cast<C>(gradient.item[c]);
  }
}

// Where a pixel lies in a level.
struct Cell {
  unsigned row, column;
  bool is_inside;

  __device__ Cell(const Level& level, unsigned pixel) : row(0), column(0), is_inside(false) {
    if (level.height <= 0 || level.width <= 0) return;
    const uint64_t place = uint64_t{pixel} - static_cast<uint64_t>(level.start);
    // Levels hold fewer than 2^31 of the pixels, however large they say they are.
    if (place >= uint64_t{1} << 31) return;
    constexpr int64_t most = (int64_t{1} << 31) - 1;
    const unsigned width = static_cast<unsigned>(level.width < most ? level.width : most);
    row = static_cast<unsigned>(place) / width;
    column = static_cast<unsigned>(place) % width;
    is_inside = row < static_cast<uint64_t>(level.height);
  }
};

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
      // Levels may have pixels in common.
      for (int l = 0; l < static_cast<int>(call.shapes.size[0]); ++l) {
        const Level level = call.level(l);
        const Cell cell(level, static_cast<unsigned>(pixel));
        if (!cell.is_inside) continue;
        for (int corner = 0; corner < 4; ++corner) {
          const int up = corner / 2, left = corner % 2;
          if (cell.row < static_cast<unsigned>(up) || cell.column < static_cast<unsigned>(left)) continue;
          const int64_t listed = pixel - up * level.width - left;
          if (listed < 0) continue;
          add_list<width, vectors>(lists, static_cast<int>(owner * call.pixels() + listed), l, up, left, from,
                                   gradients, grad_out.stride[1], sum);
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
