// torch_failed("an output cannot be allocated"): throws what torch's C ABI could not do, with torch's own words for it.
#pragma once

#include "error.h"

// torch's words for the last failure in this thread. torch has them since 2.13; earlier ones printed them on stderr.
extern "C" [[gnu::weak]] const char* torch_exception_get_what_without_backtrace();

namespace opsmith {

template <class... Parts>
[[gnu::cold, gnu::noinline, noreturn]] void torch_failed(const Parts&... what) {
  if (torch_exception_get_what_without_backtrace == nullptr) fail(what..., "; torch's message stands above");
  fail(what..., ": ", torch_exception_get_what_without_backtrace());
}

}  // namespace opsmith
