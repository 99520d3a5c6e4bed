// A call as walk.cuh takes it: one kernel serves all element types.
#pragma once

#include <type_traits>

#include "device.cuh"
#include "signs.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

// The elements of a call are of one of these types, which a kernel is told when it runs: its arithmetic is the same for
// all of them, and kernels for each would take three times as long to compile.
enum class Element : int { float16, bfloat16, float32 };

template <class T>
constexpr Element element_of = std::is_same_v<T, float16>    ? Element::float16
                               : std::is_same_v<T, bfloat16> ? Element::bfloat16
                                                             : Element::float32;

__device__ float number_of(uint32_t bits, Element element) {
  if (element == Element::float16) return static_cast<float>(bit_cast<float16>(static_cast<uint16_t>(bits)));
  return bit_cast<float>(element == Element::bfloat16 ? bits << 16 : bits);
}

// A tensor of such elements, with strides in bytes.
struct Bytes {
  unsigned char* data;
  int64_t size[4], stride[4];

  template <class T, int N>
  static Bytes of(const View<T, N>& view) {
    Bytes bytes{};
    bytes.data = reinterpret_cast<unsigned char*>(const_cast<std::remove_const_t<T>*>(view.data));
    for (int dim = 0; dim < N; ++dim) {
      bytes.size[dim] = view.size[dim];
      bytes.stride[dim] = view.stride[dim] * static_cast<int64_t>(sizeof(T));
    }
    return bytes;
  }

  __device__ unsigned char* plane(const Items::Place& place) const {
    return data + place.image * stride[0] + place.channel * stride[1];
  }
};

// A call of walk.cuh's kernels: x to y, or backward y's gradient to x's.
struct WalkCall {
  Bytes in, b, out;
  Element element;
  Pass up, down;
  Items items;
  Partials partials;
  Signs signs;

  __device__ float bias(int64_t channel) const {
    if (b.data == nullptr) return no_bias<float>;
    const unsigned char* from = b.data + channel * b.stride[0];
    return number_of(element == Element::float32 ? *reinterpret_cast<const uint32_t*>(from)
                                                 : *reinterpret_cast<const uint16_t*>(from),
                     element);
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
