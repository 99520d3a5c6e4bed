// Some channels of one pixel or bin, as a thread of a GPU takes them: one vector where they lie side by side, else one
// element each.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::boxes {
namespace {

// What a vector of so many bytes is written as: itself, or 16 bytes after 16 bytes.
template <int bytes>
struct Word {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned;
};

// Writes a vector. Left to itself nvcc 13.0 takes it apart into single words, but not where it is to be streamed.
template <class T, int width>
__device__ void write_vector(const Vector<T, width>& vector, T* to) {
  using Part = typename Word<sizeof(vector)>::type;
  constexpr int parts = sizeof(vector) / sizeof(Part);
  const auto words = bit_cast<Vector<Part, parts>>(vector);
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    Part* const place = reinterpret_cast<Part*>(to) + i;
#if defined(__HIPCC__)
    *place = words.item[i];
#else
    __stcs(place, words.item[i]);
#endif
  }
}

// `count` of them are there, of `width`; vectors are always full.
template <int width, bool vectors>
struct Channels {
  int64_t stride;  // from one channel to the next
  int count;

  // As they are: not converted until they are used, they take fewer registers on their way.
  template <class T>
  __device__ Vector<T, width> read(const T* from) const {
    Vector<T, width> found{};
    if constexpr (vectors) {
      found = *reinterpret_cast<const Vector<T, width>*>(from);
    } else {
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c < count) found.item[c] = from[c * stride];
      }
    }
    return found;
  }

  template <class T>
  __device__ void load(const T* from, compute_t<T> (&to)[width]) const {
    const Vector<T, width> found = read(from);
#pragma unroll
    for (int c = 0; c < width; ++c) to[c] = static_cast<compute_t<T>>(found.item[c]);
  }

  template <class T>
  __device__ void store(const compute_t<T> (&from)[width], T* to) const {
    const Vector<T, width> values = rounded<T>(from);
    if constexpr (vectors) {
      write_vector(values, to);
    } else {
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c < count) to[c * stride] = values.item[c];
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
}  // namespace opsmith::ops::boxes
