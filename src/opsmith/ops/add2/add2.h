// What add2 does to one pair of elements, for add2.cpp and add2.cu.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

namespace opsmith::ops::add2 {
namespace {

struct Add {
  template <class C>
  OPSMITH_HOST_DEVICE C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {
      using U = std::make_unsigned_t<C>;  // integers wrap around, as PyTorch's do
      return static_cast<C>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};

}  // namespace
}  // namespace opsmith::ops::add2
