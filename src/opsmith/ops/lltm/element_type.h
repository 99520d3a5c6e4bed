// How a native kernel gets from a tensor's element type to a C++ type.
#pragma once

#include <opsmith/native.h>

namespace lltm {

// Calls f with a value of the element type, one of the four that the operators take.
template <class F>
void with_element_type(opsmith::ScalarType type, const F& f) {
  using opsmith::ScalarType;
  switch (type) {
    case ScalarType::Half:
      return f(opsmith::float16{});
    case ScalarType::BFloat16:
      return f(opsmith::bfloat16{});
    case ScalarType::Double:
      return f(double{});
    default:
      return f(float{});
  }
}

}  // namespace lltm
