// Vectors of elements as a CPU's registers hold them.
#pragma once

#include <opsmith/host_device.h>

namespace opsmith::ops::cpu {
namespace {

// Elements of a vector register, at any address. A sum that is an array instead g++ keeps in memory from four vectors
// on.
template <int bytes, class C>
struct Register {
  typedef C Lanes __attribute__((vector_size(bytes), aligned(alignof(C)), may_alias));
  static constexpr int count = bytes / sizeof(C);
};

// The sum of a vector's elements.
template <int bytes, class C>
OPSMITH_HOST_DEVICE C sum_of(const typename Register<bytes, C>::Lanes& lanes) {
  if constexpr (bytes == sizeof(C)) {
    return lanes[0];
  } else {
    using Half = typename Register<bytes / 2, C>::Lanes;
    Half half[2];
    __builtin_memcpy(half, &lanes, bytes);
    return sum_of<bytes / 2, C>(half[0] + half[1]);
  }
}

}  // namespace
}  // namespace opsmith::ops::cpu
