// Vectors of elements as a CPU's registers hold them.
#pragma once

namespace opsmith::ops::cpu {
namespace {

// Elements of a vector register, at any address. A sum that is an array instead g++ keeps in memory from four vectors
// on.
template <int bytes, class C>
struct Register {
  typedef C Lanes __attribute__((vector_size(bytes), aligned(alignof(C)), may_alias));
  static constexpr int count = bytes / sizeof(C);
};

}  // namespace
}  // namespace opsmith::ops::cpu
