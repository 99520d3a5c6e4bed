// Some channels of one pixel or bin, as a thread of a GPU takes them: one vector where they lie side by side, else one
// element each.
#pragma once

#include <opsmith/kernel.h>

namespace {

using namespace opsmith;

// `count` of them are there, of `width`; vectors are always full.
template <int width, bool vectors>
struct Channels {
  int64_t stride;  // from one channel to the next
  int count;

  template <class T>
  __device__ void load(const T* from, compute_t<T> (&to)[width]) const {
    Vector<T, width> read{};
    if constexpr (vectors) {
      read = *reinterpret_cast<const Vector<T, width>*>(from);
    } else {
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c < count) read.item[c] = from[c * stride];
      }
    }
#pragma unroll
    for (int c = 0; c < width; ++c) to[c] = static_cast<compute_t<T>>(read.item[c]);
  }

  template <class T>
  __device__ void store(const compute_t<T> (&from)[width], T* to) const {
    Vector<T, width> rounded;
#pragma unroll
    for (int c = 0; c < width; ++c) rounded.item[c] = static_cast<T>(from[c]);
    if constexpr (vectors) {
      *reinterpret_cast<Vector<T, width>*>(to) = rounded;
    } else {
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c < count) to[c * stride] = rounded.item[c];
      }
    }
  }
};

// Whether the channels of a tensor [K, C, height, width] lie side by side, pixel by pixel, as channels_last puts them.
template <class T>
bool are_inner(const View<T, 4>& tensor) {
  return tensor.size[1] > 1 && tensor.stride[1] == 1;
}

// Whether they can be read and written as vectors of `width`.
template <int width, class T>
bool are_vectors(const View<T, 4>& tensor) {
  return tensor.stride[1] == 1 && tensor.size[1] % width == 0 && tensor.stride[0] % width == 0 &&
         tensor.stride[2] % width == 0 && tensor.stride[3] % width == 0 && is_aligned(tensor.data, width * sizeof(T));
}

}  // namespace
