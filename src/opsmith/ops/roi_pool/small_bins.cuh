// How a bin of few pixels is made: a thread makes one, of some channels, and reads its pixels where they are.
#pragma once

#include <opsmith/kernel.h>

#include "largest.cuh"
#include "roi_pool.h"

namespace opsmith::ops::roi_pool {
namespace {

// The strides of an image's rows and columns, in 32 bits.
struct PlaneSteps {
  int down, across;
};

// Whether offsets in a plane have 31 bits.
template <class T>
bool has_plane_steps(const View<T, 4>& tensor) {
  constexpr int64_t most = (int64_t{1} << 30) - 1;
  const int64_t down = tensor.stride[2], across = tensor.stride[3];
  return down >= 0 && across >= 0 && tensor.size[2] <= most / (down + 1) && tensor.size[3] <= most / (across + 1);
}

template <class T>
PlaneSteps plane_steps(const View<T, 4>& tensor) {
  return {static_cast<int>(tensor.stride[2]), static_cast<int>(tensor.stride[3])};
}

// Returns a pointer to global memory that stays an address in registers. Left to itself nvcc 13.0 keeps the parts of
// one, and takes four instructions to put them together where an offset is added, which to an address is one.
template <class T>
__device__ T* as_address(T* pointer) {
#if defined(__CUDA_ARCH__)
  size_t address = __cvta_generic_to_global(pointer);
  asm("" : "+l"(address));
  return static_cast<T*>(__cvta_global_to_generic(address));
#else
  return pointer;
#endif
}

// Where a thread's channels begin in an image: one address where they lie side by side, else one each.
template <int width, bool vectors, class T>
struct ChannelPlanes {
  const T* first[vectors ? 1 : width];

  // Of the channels behind the first one, as many as `is_there(c)` holds for are `step` apart; the others are the last
  // of these again, for reading.
  template <class IsThere>
  __device__ ChannelPlanes(const T* from, int64_t step, const IsThere& is_there) {
    first[0] = from;
    if constexpr (!vectors) {
#pragma unroll
      for (int c = 1; c < width; ++c) first[c] = first[c - 1] + (is_there(c) ? step : 0);
#pragma unroll
      for (const T*& one : first) one = as_address(one);
    }
  }

  __device__ Vector<T, width> read(int offset) const {
    if constexpr (vectors) {
      return *reinterpret_cast<const Vector<T, width>*>(first[0] + offset);
    } else {
      Vector<T, width> found;
#pragma unroll
      for (int c = 0; c < width; ++c) found.item[c] = first[c][offset];
      return found;
    }
  }
};

// The pixels of a bin, of which there are some.
struct BinPixels {
  Range y, x;
  PlaneSteps plane;
  int image_width;
};

// The largest pixels so far, channel by channel, and the first places where they are.
template <int width_, class T>
struct LargestPixels {
  static constexpr int width = width_;
  static constexpr bool has_places = true;
  compute_t<T> most[width];
  int place[width];
  compute_t<T> doubt;  // NaN once there was a NaN or an infinity; a product does not take the unit that compares

  __device__ void begin(int first) {
    doubt = 0;
#pragma unroll
    for (int c = 0; c < width; ++c) most[c] = -static_cast<compute_t<T>>(INFINITY), place[c] = first;
  }
  __device__ void be_empty() {
#pragma unroll
    for (int c = 0; c < width; ++c) most[c] = 0, place[c] = -1;
  }
  template <bool careful>
  __device__ void take(const Vector<T, width>& values, int pixel) {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const auto value = static_cast<compute_t<T>>(values.item[c]);
      if (careful ? is_larger(value, most[c]) : value > most[c]) most[c] = value, place[c] = pixel;
      if constexpr (!careful) doubt += value * compute_t<T>{0};
    }
  }
  __device__ bool is_in_doubt() const { return doubt != doubt; }
  __device__ T element(int c) const { return static_cast<T>(most[c]); }
  __device__ Vector<T, width> elements() const { return rounded<T>(most); }
};

// The same without places, which takes one instruction a pixel, or half of one.
template <int width_, class T>
struct LargestValues {
  static constexpr int width = width_;
  static constexpr bool has_places = false;
  Vector<T, width> most;

  __device__ void begin(int) { fill(-static_cast<compute_t<T>>(INFINITY)); }
  __device__ void be_empty() { fill(0); }
  template <bool careful>
  __device__ void take(const Vector<T, width>& values, int) {
    most = largest(most, values);
  }
  __device__ bool is_in_doubt() const { return false; }
  __device__ T element(int c) const { return most.item[c]; }
  __device__ Vector<T, width> elements() const { return most; }

 private:
  __device__ void fill(compute_t<T> value) {
#pragma unroll
    for (int c = 0; c < width; ++c) most.item[c] = static_cast<T>(value);
  }
};

// Looks through a bin. A row is read `at_once` pixels at a time; where it has fewer, its last one is read again, which
// changes nothing. Without `careful`, which takes two comparisons a pixel, the result may be wrong where there is a
// NaN, and is in doubt then.
template <int at_once, bool has_one_step, bool careful, int width, bool vectors, class T, class Found>
__device__ void look_through(const ChannelPlanes<width, vectors, T>& planes, const BinPixels& bin, Found& found) {
  found.begin(bin.y.low * bin.image_width + bin.x.low);
  int column[at_once];
  const auto go_to = [&](int first) {
#pragma unroll
    for (int q = 0; q < at_once; ++q) column[q] = min(first + q, bin.x.high - 1);
  };
  const auto look = [&](int v) {
    Vector<T, width> values[at_once];
    const int line = v * bin.plane.down;
#pragma unroll
    for (int q = 0; q < at_once; ++q) values[q] = planes.read(line + column[q] * bin.plane.across);
#pragma unroll
    for (int q = 0; q < at_once; ++q) found.template take<careful>(values[q], v * bin.image_width + column[q]);
  };
  if constexpr (has_one_step) go_to(bin.x.low);
#pragma unroll 1
  for (int v = bin.y.low; v < bin.y.high; ++v) {
    if constexpr (has_one_step) {
      look(v);
    } else {
#pragma unroll 1
      for (int first = bin.x.low; first < bin.x.high; first += at_once) go_to(first), look(v);
    }
  }
}

// The same for every bin: one without pixels has 0 and no place. The bins of a box are read alike, `at_once` pixels at
// a time, so that the lanes of a warp stay together.
template <int width, bool vectors, class T, class Found>
__device__ void find_first_largest(const ChannelPlanes<width, vectors, T>& planes, const BinPixels& bin, int at_once,
                                   Found& found) {
  if (bin.y.low >= bin.y.high || bin.x.low >= bin.x.high) return found.be_empty();
  const auto look = [&](auto pixels, auto one_step) {
    look_through<decltype(pixels)::value, decltype(one_step)::value, false>(planes, bin, found);
  };
  // Of several steps, each has three pixels or four.
  if (at_once == 3) {
    look(std::integral_constant<int, 3>{}, std::true_type{});
  } else if (at_once == 2) {
    look(std::integral_constant<int, 2>{}, std::true_type{});
  } else if (at_once == 1) {
    look(std::integral_constant<int, 1>{}, std::true_type{});
  } else if (at_once == 4) {
    look(std::integral_constant<int, 4>{}, std::true_type{});
  } else if (at_once == -3) {
    look(std::integral_constant<int, 3>{}, std::false_type{});
  } else {
    look(std::integral_constant<int, 4>{}, std::false_type{});
  }
  if (found.is_in_doubt()) look_through<1, false, true>(planes, bin, found);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
