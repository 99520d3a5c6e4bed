// The gradients of locations and weights, on a GPU: sums over channels of the gradient times a point's four pixels.
#pragma once

#include "gpu_call.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

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

// A lane gives the sums of half of its points to the one `apart` from it, and keeps the rest, and what it is given; and
// so on, until it has one point or there are no more lanes to give to. Returns how far apart the next ones are.
template <int half, int at_once, class C>
__device__ int give_halves(C (&dot)[at_once][4], int lane, int apart, OwnPoints& own) {
  if (apart == 0) return 0;
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
  if constexpr (half > 1) return give_halves<half / 2>(dot, lane, apart / 2, own);
  return apart / 2;
}

// Adds up what the lanes of a query have of some points' sums. Where there are more lanes than points, one of several
// has them.
template <int at_once, class C>
__device__ OwnPoints share_out(C (&dot)[at_once][4], const Lanes& lanes_of) {
  static_assert((at_once & (at_once - 1)) == 0, "halved until one is left");
  const int lane = lanes_of.lane();
  OwnPoints own{0, at_once};
#pragma unroll 1
  for (int apart = give_halves<at_once / 2>(dot, lane, lanes_of.lanes_each / 2, own); apart > 0; apart /= 2) {
#pragma unroll
    for (int k = 0; k < 4; ++k) dot[0][k] += shuffle_xor(dot[0][k], apart);
    if (lane & apart) own.count = 0;
  }
  return own;
}

// What the gradients of locations and weights are made from. A block's piece is some queries of one head, and
// `taps_each` of their points.
template <class T>
struct Slopes {
  View<const T, 3> grad_out;
  View<T, 6> grad_locations;
  View<T, 5> grad_weights;
  Lanes lanes_of;
  int taps_each, parts;
  int64_t blocks, pieces;

  Slopes(const Call<T>& call, const View<const T, 3>& grad_out, const View<T, 6>& grad_locations,
         const View<T, 5>& grad_weights, int taps_each)
      : grad_out(grad_out),
        grad_locations(grad_locations),
        grad_weights(grad_weights),
        lanes_of(Lanes::of(call.channels(), lane_width<T>)),
        taps_each(taps_each),
        parts(static_cast<int>(divide_up(call.taps(), taps_each))),
        blocks(divide_up(call.queries(), lanes_of.items())),
        pieces(call.images() * call.heads() * blocks * parts) {}

  // To be called by all threads of a block; `at_once` points of a query are worked on together.
  template <int at_once, bool vectors>
  __device__ void find(const Call<T>& call, int64_t piece, Table<compute_t<T>>& table) const {
    using C = compute_t<T>;
    constexpr int width = lane_width<T>;
    const int items = lanes_of.items(), room = table_points / items, batch = taps_each < room ? taps_each : room;
    const int item = lanes_of.item(), all = call.channels(), heads = call.heads();
    const int64_t block = piece / parts, owner = block / blocks, image = owner / heads;
    const int head = static_cast<int>(owner % heads), first_query = static_cast<int>(block % blocks) * items;
    const int begin = static_cast<int>(piece % parts) * taps_each;
    const int end = call.taps() - begin < taps_each ? call.taps() : begin + taps_each;
    const int query = first_query + item;
    const T* const pixels = call.value.data + image * call.value.stride[0] + head * call.value.stride[2];
    const T* const gradients = grad_out.data + image * grad_out.stride[0] + query * grad_out.stride[1] +
                               int64_t{head} * all * grad_out.stride[2];
    for (int first = begin; first < end; first += batch) {
      const int count = end - first < batch ? end - first : batch;
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
};

template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads) find_slopes(Call<T> call, Slopes<T> slopes) {
  __shared__ Table<compute_t<T>> table;
  for (int64_t piece = blockIdx.x; piece < slopes.pieces; piece += gridDim.x) {
    slopes.template find<8, vectors>(call, piece, table);
  }
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
