// From a tensor's element type to a type of C++.
#pragma once

#include <opsmith/native.h>

namespace {

// Calls f with a value of the element type, one of the four floating ones.
template <class F>
void with_element_type(opsmith::ScalarType type, const F& f) {
  switch (type) {
    case opsmith::ScalarType::Half:
      return f(opsmith::float16{});
    case opsmith::ScalarType::BFloat16:
      return f(opsmith::bfloat16{});
    case opsmith::ScalarType::Double:
      return f(double{});
    default:
      return f(float{});
  }
}

}  // namespace
