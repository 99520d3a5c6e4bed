// The gradients of locations and weights, on a GPU: sums over channels of the gradient times a point's four pixels.
#pragma once

#include "gpu_call.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

constexpr int at_once = 8;  // points of a query

// Writes what the four sums of point n of the table give.
template <class T>
__device__ void write_slopes(const Call<T>& call, const Table<compute_t<T>>& table, int n, int64_t image, int query,
                             int head, int tap, const compute_t<T> (&dot)[4], const View<T, 6>& grad_locations,
                             const View<T, 5>& grad_weights) {
  using C = compute_t<T>;
  const int l = tap / call.points(), p = tap % call.points();
  if (grad_weights.data != nullptr) {
    const Vector<C, 4> share = table.shares(n);
    C sum = share.item[0] * dot[0];
#pragma unroll
    for (int k = 1; k < 4; ++k) sum += share.item[k] * dot[k];
    grad_weights(image, query, head, l, p) = T(sum);
  }
  if (grad_locations.data == nullptr) return;
  C along_x = 0, along_y = 0;
  if (table.pixel[n].x != outside) {
    const C weight = table.weight[n];
    bilinear::slopes(dot, table.place[n].item[0], table.place[n].item[1], along_y, along_x);
    along_x *= weight * static_cast<C>(call.shapes(l, 1));
    along_y *= weight * static_cast<C>(call.shapes(l, 0));
  }
  T* const to = &grad_locations(image, query, head, l, p, 0);
  to[0] = T(along_x);
  to[grad_locations.stride[5]] = T(along_y);
}

// The sums over a query's channels of its gradient times each pixel of a point, one lane's part.
template <class T, int width, bool vectors>
__device__ void add_dots(const Call<T>& call, const int4& pixel, const T* pixels, const Channels<width, vectors>& from,
                         const compute_t<T> (&gradient)[width], compute_t<T> (&dot)[4]) {
  const int64_t stride = call.value.stride[1];
  const Vector<T, width> corner[4] = {
      read_pixel(from, pixels, stride, pixel.x), read_pixel(from, pixels, stride, pixel.y),
      read_pixel(from, pixels, stride, pixel.z), read_pixel(from, pixels, stride, pixel.w)};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int c = 0; c < width; ++c) dot[k] += gradient[c] * static_cast<compute_t<T>>(corner[k].item[c]);
  }
}

// Points of a query whose sums a lane has, at the beginning of its array.
struct OwnPoints {
  int first, count;
};

// A lane gives the sums of half of its points to the one `apart` from it, and keeps the rest, and what it is given.
template <int half, class C>
__device__ void give_half(C (&dot)[at_once][4], int lane, int apart, OwnPoints& own) {
  if (apart == 0) return;
  const bool is_upper = (lane & apart) != 0;
#pragma unroll
  for (int u = 0; u < half; ++u) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const C given = is_upper ? dot[u][k] : dot[half + u][k], kept = is_upper ? dot[half + u][k] : dot[u][k];
      dot[u][k] = kept + shuffle_xor(given, apart);
    }
  }
  own = {own.first + (is_upper ? half : 0), half};
}

// Adds up what the lanes of a query have of some points' sums. Where there are more lanes than points, one of several
// has them.
template <class C>
__device__ OwnPoints share_out(C (&dot)[at_once][4], const Lanes& lanes_of) {
  static_assert(at_once == 8, "as many as there are steps for");
  const int each = lanes_of.lanes_each, lane = lanes_of.lane();
  OwnPoints own{0, at_once};
  give_half<4>(dot, lane, each / 2, own);
  give_half<2>(dot, lane, each / 4, own);
  give_half<1>(dot, lane, each / 8, own);
#pragma unroll 1
  for (int apart = each / 16; apart > 0; apart /= 2) {
#pragma unroll
    for (int k = 0; k < 4; ++k) dot[0][k] += shuffle_xor(dot[0][k], apart);
    if (lane & apart) own.count = 0;
  }
  return own;
}

template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads)
    find_slopes(Call<T> call, Lanes lanes_of, int64_t pieces, View<const T, 3> grad_out, View<T, 6> grad_locations,
                View<T, 5> grad_weights) {
  using C = compute_t<T>;
  constexpr int width = lane_width<T>;
  __shared__ Table<C> table;
  const int items = lanes_of.items(), batch = table_points / items, taps = call.taps(), heads = call.heads();
  const int item = lanes_of.item(), all = call.channels();
  const int64_t blocks = divide_up(call.queries(), items);
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t owner = piece / blocks, image = owner / heads;
    const int head = static_cast<int>(owner % heads), first_query = static_cast<int>(piece % blocks) * items;
    const int query = first_query + item;
    const T* const pixels = call.value.data + image * call.value.stride[0] + head * call.value.stride[2];
    const T* const gradients = grad_out.data + image * grad_out.stride[0] + query * grad_out.stride[1] +
                               int64_t{head} * all * grad_out.stride[2];
    for (int first = 0; first < taps; first += batch) {
      const int count = taps - first < batch ? taps - first : batch;
      table.fill(call, image, head, first_query, items, batch, first, count);
      for (int n = 0; n < count; n += at_once) {
        C dot[at_once][4] = {};
        for (int channel = query < call.queries() ? lanes_of.lane() * width : all; channel < all;
             channel += lanes_of.lanes_each * width) {
          const int left = all - channel < width ? all - channel : width;
          const Channels<width, vectors> from{call.value.stride[3], left}, of{grad_out.stride[2], left};
          C gradient[width];
          of.load(gradients + channel * grad_out.stride[2], gradient);
#pragma unroll
          for (int u = 0; u < at_once; ++u) {
            if (n + u >= count) break;
            add_dots(call, table.pixel[item * batch + n + u], pixels + channel * call.value.stride[3], from, gradient,
                     dot[u]);
          }
        }
        // All lanes of a warp come here: its queries have their sums side by side.
        const OwnPoints own = share_out(dot, lanes_of);
#pragma unroll 1
        for (int point = n + own.first; point < n + own.first + own.count; ++point) {
          if (point < count && query < call.queries()) {
            write_slopes(call, table, item * batch + point, image, query, head, first + point, dot[0], grad_locations,
                         grad_weights);
          }
          // The next one comes to where this was: registers have no index.
#pragma unroll
          for (int u = 0; u + 1 < at_once; ++u) {
#pragma unroll
            for (int k = 0; k < 4; ++k) dot[u][k] = dot[u + 1][k];
          }
        }
      }
    }
  }
}

template <class T>
void launch_slopes(const Call<T>& call, const View<const T, 3>& grad_out, const View<T, 6>& grad_locations,
                   const View<T, 5>& grad_weights, Stream stream) {
  const Lanes lanes_of = Lanes::of(call.channels(), lane_width<T>);
  const int64_t pieces = call.images() * call.heads() * divide_up(call.queries(), lanes_of.items());
  const unsigned blocks = blocks_for(pieces, 1);
  if (has_vectors(call.value) && has_vectors(grad_out, call.channels())) {
    find_slopes<T, true>
        <<<blocks, block_threads, 0, stream>>>(call, lanes_of, pieces, grad_out, grad_locations, grad_weights);
  } else {
    find_slopes<T, false>
        <<<blocks, block_threads, 0, stream>>>(call, lanes_of, pieces, grad_out, grad_locations, grad_weights);
  }
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
