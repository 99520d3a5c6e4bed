// A call on a GPU, and the points of some queries in shared memory, where all of a query's lanes read them.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/lanes.h>

#include "../_boxes/channels.cuh"
#include "ms_deform_attn.h"

namespace opsmith::ops::ms_deform_attn {
namespace {

using boxes::Channels;

constexpr int block_threads = 256;
constexpr int table_points = 512;  // that a block keeps at hand
constexpr int outside = -2;        // no pixel, like -1

// How many elements a lane takes at once: 16 bytes.
template <class T>
constexpr int lane_width = 16 / sizeof(T);

template <class T>
struct Call {
  View<const T, 4> value;         // [N S M D]
  View<const int64_t, 2> shapes;  // [L 2]
  View<const int64_t, 1> starts;  // [L]
  View<const T, 6> locations;     // [N Q M L P 2]
  View<const T, 5> weights;       // [N Q M L P]

  OPSMITH_HOST_DEVICE int64_t images() const { return value.size[0]; }
  OPSMITH_HOST_DEVICE int pixels() const { return static_cast<int>(value.size[1]); }
  OPSMITH_HOST_DEVICE int heads() const { return static_cast<int>(value.size[2]); }
  OPSMITH_HOST_DEVICE int channels() const { return static_cast<int>(value.size[3]); }
  OPSMITH_HOST_DEVICE int queries() const { return static_cast<int>(locations.size[1]); }
  OPSMITH_HOST_DEVICE int points() const { return static_cast<int>(locations.size[4]); }
  OPSMITH_HOST_DEVICE int taps() const { return static_cast<int>(locations.size[3]) * points(); }

  __device__ Level level(int l) const { return {shapes(l, 0), shapes(l, 1), starts(l)}; }

  __device__ Sample<compute_t<T>> sample(int64_t image, int query, int head, int tap) const {
    using C = compute_t<T>;
    const int l = tap / points(), p = tap % points();
    const T* const at = &locations(image, query, head, l, p, 0);
    return locate(static_cast<C>(at[0]), static_cast<C>(at[locations.stride[5]]), level(l), value.size[1]);
  }
  __device__ compute_t<T> weight(int64_t image, int query, int head, int tap) const {
    return static_cast<compute_t<T>>(weights(image, query, head, tap / points(), tap % points()));
  }
};

// How a block's threads are divided: `lanes_each` adjacent lanes, a power of two, share a query or a pixel, and a warp
// holds whole ones.
struct Lanes {
  int lanes_each, shift;

  // Enough for all channels, at least so many and at most a warp.
  OPSMITH_HOST_DEVICE static Lanes of(int channels, int width, int least = 1) {
    Lanes found{1, 0};
    while (found.lanes_each < lanes && (found.lanes_each < least || found.lanes_each * width < channels)) {
      found.lanes_each *= 2, ++found.shift;
    }
    return found;
  }
  OPSMITH_HOST_DEVICE int items() const { return block_threads >> shift; }
  __device__ int item() const { return static_cast<int>(threadIdx.x) >> shift; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes_each - 1); }
};

// Points of the block's queries: `batch` of each. All four pixels of a point outside of its level are `outside`.
template <class C>
struct Table {
  int4 pixel[table_points];
  Vector<C, 2> place[table_points];  // how far below and right of the pixel at the top left
  C weight[table_points];

  // Fills in the points [first, first + count) of the queries of a block. To be called by all its threads.
  template <class T>
  __device__ void fill(const Call<T>& call, int64_t image, int head, int query, int items, int batch, int first,
                       int count) {
    __syncthreads();
    for (int n = threadIdx.x; n < items * batch; n += block_threads) {
      const int own = query + n / batch, tap = first + n % batch;
      if (own >= call.queries() || n % batch >= count) continue;
      const Sample<C> sample = call.sample(image, own, head, tap);
      pixel[n] = make_int4(static_cast<int>(sample.pixel[0]), static_cast<int>(sample.pixel[1]),
                           static_cast<int>(sample.pixel[2]), static_cast<int>(sample.pixel[3]));
      if (!sample.is_inside) pixel[n].x = outside;
      place[n] = {sample.below, sample.right};
      weight[n] = call.weight(image, own, head, tap);
    }
    __syncthreads();
  }

  __device__ Vector<C, 4> shares(int n) const {
    const C below = place[n].item[0], right = place[n].item[1], above = C(1) - below, left = C(1) - right;
    return {above * left, above * right, below * left, below * right};
  }
};

// The channels of a pixel that is there, else zeros.
template <class T, int width, bool vectors>
__device__ Vector<T, width> read_pixel(const Channels<width, vectors>& channels, const T* from, int64_t stride,
                                       int pixel) {
  return pixel < 0 ? Vector<T, width>{} : channels.read(from + pixel * stride);
}

// Kernels count by 32 bits.
template <class T>
void check_sizes(const Call<T>& call) {
  constexpr int64_t most = int64_t{1} << 31;
  int64_t points = 1;  // of an image
  for (const int64_t size :
       {call.locations.size[1], call.locations.size[2], call.locations.size[3], call.locations.size[4]}) {
    points = size < most && points < most ? points * size : most;
  }
  if (call.value.size[1] >= most || call.value.size[2] >= most || call.value.size[3] >= most || points >= most) {
    fail("ms_deform_attn() on a GPU takes images of fewer than 2^31 pixels, channels and points; found ",
         call.value.size[1], " pixels, ", call.value.size[2], " heads of ", call.value.size[3], " channels, and ",
         call.locations.size[1], " queries of ", call.locations.size[3], " x ", call.locations.size[4], " points");
  }
}

// Whether a lane can take its channels as one vector.
template <class T>
bool has_vectors(const View<const T, 4>& value) {
  constexpr int width = lane_width<T>;
  return value.size[3] % width == 0 && value.stride[3] == 1 && value.stride[0] % width == 0 &&
         value.stride[1] % width == 0 && value.stride[2] % width == 0 &&
         is_aligned(value.data, static_cast<int>(width * sizeof(T)));
}

// The same of a tensor [N Q M*D], for heads of so many channels.
template <class T>
bool has_vectors(const View<T, 3>& sums, int channels) {
  constexpr int width = 16 / sizeof(T);
  return channels % width == 0 && sums.stride[2] == 1 && sums.stride[0] % width == 0 && sums.stride[1] % width == 0 &&
         is_aligned(sums.data, 16);
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
