// What a launch asks of an NVIDIA GPU: which one is current, which image serves it, and the shared memory that it has.
#pragma once

#include <cstdint>

#include "cuda_driver.h"
#include "error.h"

namespace opsmith {
namespace embedded {

// How messages call the platform, and the most threads along an axis of a grid, which no grid of CUDA's exceeds.
constexpr const char* platform = "CUDA";
constexpr int64_t most_threads = INT64_MAX;
// Offsets in tensors are counted in elements.
constexpr bool counts_bytes = false;

namespace detail {

// Values of cuda.h.
constexpr int capability_major = 75, capability_minor = 76, most_shared_bytes = 97;
constexpr int dynamic_shared_bytes = 8, device_of_pointer = 9;
constexpr int static_shared_bytes = 1;
// What a kernel may have of shared memory without asking for it.
constexpr int64_t unasked_shared_bytes = 48 * 1024;

// The number of the current GPU. A thread that has not used CUDA yet has none: it gets that of the data.
inline int device_of(const Driver& driver, const char* op, const void* data) {
  void* context = nullptr;
  driver.check(driver.get_context(&context), op, "when the current GPU was asked for");
  int device = -1;
  if (context == nullptr) {
    const auto address = reinterpret_cast<uint64_t>(data);
    driver.check(driver.pointer_attribute(&device, device_of_pointer, address), op,
                 "when a tensor's GPU was asked for");
    driver.check(driver.retain_context(&context, device), op, "when a GPU's context was asked for");
    driver.check(driver.set_context(context), op, "when a GPU was made current");
  } else {
    driver.check(driver.get_device(&device), op, "when the current GPU was asked for");
  }
  return device;
}

// The image that serves a GPU best: machine code for it, else for an older one of its generation, else PTX.
template <class Image>
Image* best_image(Image* images, int count, int arch) {
  Image* best = nullptr;
  int best_score = 0;
  for (Image* image = images; image != images + count; ++image) {
    const bool fits =
        image->is_exact ? image->arch == arch : image->arch <= arch && (image->is_ptx || image->arch / 10 == arch / 10);
    const int score = (image->is_ptx ? 0 : 1000) + image->arch + 1;
    if (fits && score > best_score) best = image, best_score = score;
  }
  return best;
}

// Likewise for one of the process's GPUs; throws where none fits.
template <class Image>
Image* image_for(const Driver& driver, const char* op, Image* images, int count, int device) {
  int major = 0, minor = 0;
  driver.check(driver.device_attribute(&major, capability_major, device), op, "when the GPU was asked for");
  driver.check(driver.device_attribute(&minor, capability_minor, device), op, "when the GPU was asked for");
  Image* image = best_image(images, count, major * 10 + minor);
  if (image == nullptr) {
    fail(op, "(): the library has neither machine code for this GPU, of compute capability ", major, ".", minor,
         ", nor PTX that fits it. Build it here: `pip install --force-reinstall --no-deps --no-build-isolation "
         "--no-binary PACKAGE PACKAGE`");
  }
  return image;
}

// The most dynamic shared memory that a block may have, in bytes.
inline int64_t shared_limit(const Driver& driver, const char* op, int device) {
  int limit = 0;
  driver.check(driver.device_attribute(&limit, most_shared_bytes, device), op, "when the GPU was asked for");
  return limit;
}

// Sees to it that a kernel may have so many bytes of dynamic shared memory.
inline void allow_shared(const Driver& driver, const char* op, void* function, int bytes) {
  if (bytes <= unasked_shared_bytes) return;
  driver.check(driver.set_function(function, dynamic_shared_bytes, bytes), op, "when shared memory was asked for");
}

}  // namespace detail
}  // namespace embedded
}  // namespace opsmith
