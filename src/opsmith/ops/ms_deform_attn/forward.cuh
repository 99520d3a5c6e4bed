// Sums the samples of each query, on a GPU.
//
// A block has queries next to each other, of one head: their points lie near each other as a rule, so that the pixels
// of one are in the first-level cache for the next. Points are worked out once for all channels.
#pragma once

#include "gpu_call.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads)
    sum_samples(Call<T> call, Lanes lanes_of, int64_t pieces, View<T, 3> out) {
  using C = compute_t<T>;
  constexpr int width = lane_width<T>;
  __shared__ Table<C> table;
  const int items = lanes_of.items(), batch = table_points / items, taps = call.taps(), heads = call.heads();
  const int item = lanes_of.item(), all = call.channels(), step = lanes_of.lanes_each * width;
  const int64_t blocks = divide_up(call.queries(), items);
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t owner = piece / blocks, image = owner / heads;
    const int head = static_cast<int>(owner % heads), query = static_cast<int>(piece % blocks) * items;
    const bool is_there = query + item < call.queries();
    for (int begin = 0; begin < all; begin += step) {
      const int channel = begin + lanes_of.lane() * width, left = all - channel;
      const int own = left < 0 ? 0 : left < width ? left : width;
      const Channels<width, vectors> from{call.value.stride[3], own}, to{out.stride[2], own};
      const T* const pixels =
          call.value.data + image * call.value.stride[0] + head * call.value.stride[2] + channel * call.value.stride[3];
      C sum[width] = {};
      for (int first = 0; first < taps; first += batch) {
        const int count = taps - first < batch ? taps - first : batch;
        table.fill(call, image, head, query, items, batch, first, count);
        if (!is_there || own == 0) continue;
#pragma unroll 2
        for (int n = item * batch; n < item * batch + count; ++n) {
          const int4 pixel = table.pixel[n];
          const Vector<T, width> corner[4] = {read_pixel(from, pixels, call.value.stride[1], pixel.x),
                                              read_pixel(from, pixels, call.value.stride[1], pixel.y),
                                              read_pixel(from, pixels, call.value.stride[1], pixel.z),
                                              read_pixel(from, pixels, call.value.stride[1], pixel.w)};
          const Vector<C, 4> share = table.shares(n);
          const C weight = table.weight[n];
#pragma unroll
          for (int c = 0; c < width; ++c) {
            C sample = share.item[0] * static_cast<C>(corner[0].item[c]);
#pragma unroll
            for (int k = 1; k < 4; ++k) sample += share.item[k] * static_cast<C>(corner[k].item[c]);
            sum[c] += weight * sample;
          }
        }
      }
      if (!is_there || own == 0) continue;
      to.store(sum, out.data + image * out.stride[0] + (query + item) * out.stride[1] +
                        (int64_t{head} * all + channel) * out.stride[2]);
    }
  }
}

template <class T>
void launch_sums(const Call<T>& call, const View<T, 3>& out, Stream stream) {
  const Lanes lanes_of = Lanes::of(call.channels(), lane_width<T>);
  const int64_t pieces = call.images() * call.heads() * divide_up(call.queries(), lanes_of.items());
  const unsigned blocks = blocks_for(pieces, 1);
  if (has_vectors(call.value) && has_vectors(out, call.channels())) {
    sum_samples<T, true><<<blocks, block_threads, 0, stream>>>(call, lanes_of, pieces, out);
  } else {
    sum_samples<T, false><<<blocks, block_threads, 0, stream>>>(call, lanes_of, pieces, out);
  }
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
