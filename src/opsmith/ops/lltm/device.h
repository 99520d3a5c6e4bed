// What the LLTM's GPU kernels share: loads of adjacent elements, and sums over 32 lanes.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

#include <type_traits>

namespace {

using opsmith::lanes;
using opsmith::shuffle_xor;

// The sums of `count` values over the lanes, `count` a power of two up to 32: a lane returns that of value
// lane / (32 / count). In each step a lane gives half of what it has to another and keeps the rest, so 16 sums take 16
// shuffles and not 80.
template <int count, int mask = lanes / 2, class C, int size>
__device__ C sum_over_lanes(C (&value)[size], int lane) {
  static_assert(count > 0 && count <= 2 * mask && (count & (count - 1)) == 0, "a power of two up to the lanes");
  if constexpr (count > 1) {
    const bool upper = (lane & mask) != 0;
#pragma unroll
    for (int k = 0; k < count / 2; ++k) {
      const C kept = upper ? value[count / 2 + k] : value[k];
      const C given = upper ? value[k] : value[count / 2 + k];
      value[k] = kept + shuffle_xor(given, mask);
    }
  } else {
    value[0] += shuffle_xor(value[0], mask);
  }
  if constexpr (mask > 1) return sum_over_lanes<(count > 1 ? count / 2 : 1), mask / 2>(value, lane);
  return value[0];
}

// `width` elements that lie side by side, as one access.
template <int width, class T>
__device__ opsmith::Vector<std::remove_const_t<T>, width> load_adjacent(T* from) {
  return *reinterpret_cast<const opsmith::Vector<std::remove_const_t<T>, width>*>(from);
}

template <int width, class T>
__device__ void store_adjacent(T* to, const opsmith::Vector<T, width>& values) {
  *reinterpret_cast<opsmith::Vector<T, width>*>(to) = values;
}

}  // namespace
