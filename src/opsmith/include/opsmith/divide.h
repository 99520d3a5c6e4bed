// Division of sizes. Included by the kernels that need it.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace opsmith {

// How many groups of `size` take n items.
OPSMITH_HOST_DEVICE constexpr int64_t divide_up(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace opsmith
