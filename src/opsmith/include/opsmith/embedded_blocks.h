// Launches kernels in CUDA C++ that were compiled ahead: the launch says how many threads and how much shared memory a
// block has, which an image of Triton's brings along.
#pragma once

#include <cstdint>

#include "embedded.h"
#include "error.h"

namespace opsmith {
namespace embedded {

// The threads of a block along each axis, and its dynamic shared memory, where they are the launch's to say.
struct Block {
  int64_t x = 1, y = 1, z = 1;
  int64_t shared_bytes = 0;

  void check(const char* op) const {
    constexpr int64_t most = 1024, most_z = 64;
    if (x < 1 || y < 1 || z < 1 || x > most || y > most || z > most_z || x * y * z > most) {
      fail(op, "(): the kernel's block would be ", x, " x ", y, " x ", z, ", and CUDA's has 1 to ", most,
           " threads, at most ", most_z, " along the third axis");
    }
    if (shared_bytes < 0) fail(op, "(): the kernel's shared memory would be ", shared_bytes, " bytes");
  }
};

namespace detail {

// Sees to it that a kernel may have as much dynamic shared memory. Beyond what all have, it gets all that the GPU has
// beside its static one: whatever another thread asks for meanwhile, it is enough.
inline void ask_for_shared(const Driver& driver, const char* op, void* function, int device, int64_t wanted) {
  int taken = 0, limit = 0;
  driver.check(driver.function_attribute(&taken, static_shared_bytes, function), op, "when a kernel was asked for");
  if (taken + wanted <= unasked_shared_bytes) return;
  driver.check(driver.device_attribute(&limit, most_shared_bytes, device), op, "when the GPU was asked for");
  if (wanted > limit - taken) {
    fail(op, "(): the kernel's launch asks for ", wanted, " bytes of dynamic shared memory, and GPU ", device, " has ",
         limit - taken, " for it");
  }
  driver.check(driver.set_function(function, dynamic_shared_bytes, limit - taken), op,
               "when shared memory was asked for");
}

}  // namespace detail

// Launches a kernel on the current GPU, in blocks that the launch says. `data` is any tensor's address.
template <int capacity>
void launch(const char* op, const Kernel& kernel, Loaded& loaded, const Grid& grid, const Block& block,
            Arguments<capacity>& arguments, const void* data, void* stream) {
  block.check(op);
  grid.check(op, block.x);
  const Driver& driver = Driver::get(op);
  const int device = detail::current_device(driver, op, data);
  void* function = detail::function_of(driver, op, kernel, device, loaded);
  if (block.shared_bytes > 0) detail::ask_for_shared(driver, op, function, device, block.shared_bytes);
  driver.check(driver.launch(function, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                             static_cast<unsigned>(grid.z), static_cast<unsigned>(block.x),
                             static_cast<unsigned>(block.y), static_cast<unsigned>(block.z),
                             static_cast<unsigned>(block.shared_bytes), stream, arguments.finish(0), nullptr),
               op, "when a kernel was launched");
}

}  // namespace embedded
}  // namespace opsmith
