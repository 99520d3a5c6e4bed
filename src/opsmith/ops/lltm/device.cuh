// Loads and stores of adjacent elements, for the LLTM's GPU kernels.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

namespace opsmith::ops::lltm {
namespace {

// `width` elements that lie side by side, as one access.
template <int width, class T>
__device__ Vector<std::remove_const_t<T>, width> load_adjacent(T* from) {
  return *reinterpret_cast<const Vector<std::remove_const_t<T>, width>*>(from);
}

template <int width, class T>
__device__ void store_adjacent(T* to, const Vector<T, width>& values) {
  *reinterpret_cast<Vector<T, width>*>(to) = values;
}

}  // namespace
}  // namespace opsmith::ops::lltm
