// What an optional number arrives as in a view kernel: std::optional's idea without its header, and fit for GPU code.
#pragma once

#include "host_device.h"

namespace opsmith {

// A number that may be absent. Trivially copyable.
template <class T>
struct Optional {
  bool given;
  T number;

  OPSMITH_HOST_DEVICE explicit operator bool() const { return given; }
  OPSMITH_HOST_DEVICE T operator*() const { return number; }
  OPSMITH_HOST_DEVICE T value_or(T other) const { return given ? number : other; }
};

}  // namespace opsmith
