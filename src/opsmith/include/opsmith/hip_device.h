// What a launch asks of an AMD GPU: which one is current, which image serves it, and the shared memory (LDS) that it
// has.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"
#include "hip_driver.h"

namespace opsmith {
namespace embedded {

// How messages call the platform, and the most threads along an axis of a grid (hipModuleLaunchKernel).
constexpr const char* platform = "HIP";
constexpr int64_t most_threads = (int64_t{1} << 32) - 1;
// Offsets in tensors are counted in bytes: within 2 GB, kernels reach tensors by buffer instructions.
constexpr bool counts_bytes = true;

namespace detail {

// The properties of a GPU as hipGetDevicePropertiesR0600 writes them; where in them is what a launch needs.
struct Properties {
  static constexpr int shared_place = 296, arch_place = 1160;

  alignas(8) char bytes[4096] = {};  // 1472 of them are used

  Properties(const Driver& driver, const char* op, int device) {
    driver.check(driver.device_properties(bytes, device), op, "when the GPU was asked for");
  }

  // Such as gfx90a:sramecc+:xnack-.
  const char* arch() const { return bytes + arch_place; }
  int64_t shared_bytes() const {
    uint64_t value;
    std::memcpy(&value, bytes + shared_place, sizeof value);
    return static_cast<int64_t>(value);
  }
};

// The number in an architecture's name, whose digits are hexadecimal: 0x90a of gfx90a:xnack-. 0 where it is another
// name.
inline int32_t arch_number(const char* name) {
  if (std::strncmp(name, "gfx", 3) != 0) return 0;
  char* end = nullptr;
  const auto number = static_cast<int32_t>(std::strtol(name + 3, &end, 16));
  return *end == ':' || *end == '\0' ? number : 0;
}

// The number of the current GPU: a thread that has not chosen one has the first.
inline int device_of(const Driver& driver, const char* op, const void*) {
  int device = -1;
  driver.check(driver.get_device(&device), op, "when the current GPU was asked for");
  return device;
}

// The image for one of the process's GPUs; throws where none fits. Machine code is for one architecture, whatever the
// features after its name.
template <class Image>
Image* image_for(const Driver& driver, const char* op, Image* images, int count, int device) {
  const Properties properties(driver, op, device);
  const int32_t arch = arch_number(properties.arch());
  char names[256] = "";
  for (Image* image = images; image != images + count; ++image) {
    if (image->arch == arch) return image;
    const size_t used = std::strlen(names);
    std::snprintf(names + used, sizeof names - used, "%sgfx%x", used == 0 ? "" : ", ", unsigned(image->arch));
  }
  fail(op, "(): the library has machine code for ", names, ", and none for this GPU, ", properties.arch(),
       ". Build it here: `pip install --force-reinstall --no-deps --no-build-isolation --no-binary PACKAGE PACKAGE`");
}

// The most shared memory that a block may have, in bytes. It need not be asked for.
inline int64_t shared_limit(const Driver& driver, const char* op, int device) {
  return Properties(driver, op, device).shared_bytes();
}
inline void allow_shared(const Driver&, const char*, void*, int) {}

}  // namespace detail
}  // namespace embedded
}  // namespace opsmith
