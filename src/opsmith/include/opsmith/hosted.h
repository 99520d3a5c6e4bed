// Calls kernels that were compiled ahead together with functions of the host that launch them: those of CuTe DSL.
//
// Such a host function computes the grid and the launch's attributes, and calls CUDA by functions that a runtime
// library of its compiler's usually has. Here these are ours, over the driver. A build gives what the compiler made of
// a kernel their names (build/ahead/compile_kernels/host_object.py).
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "cuda_driver.h"
#include "embedded.h"
#include "error.h"
#include "view.h"

namespace opsmith {
namespace embedded {

// The functions of CUDA's driver (12.0 and newer) that host functions need beside those that every launch does.
class LibraryDriver {
 public:
  using Status = Driver::Status;

  Status (*load)(void** library, const void* code, int* options, void** values, unsigned count, int* library_options,
                 void** library_values, unsigned library_count);
  Status (*kernel)(void** kernel, void* library, const char* name);
  Status (*function)(void** function, void* kernel);
  Status (*attribute)(int* value, int attribute, void* kernel, int device);
  Status (*set_attribute)(int attribute, int value, void* kernel, int device);
  Status (*launch)(const void* config, void* function, void** arguments, void** extra);
  Status (*tensor_map)(void* map, int type, unsigned rank, void* data, const uint64_t* sizes, const uint64_t* strides,
                       const unsigned* box, const unsigned* element_strides, int interleave, int swizzle, int promotion,
                       int fill);

  // The driver of this process. Throws where there is none, or it is too old.
  static const LibraryDriver& get(const char* op) {
    static const LibraryDriver driver(op);
    return driver;
  }

 private:
  explicit LibraryDriver(const char* op) {
    void* library = Driver::open(op);
    Driver::find(library, op, "cuLibraryLoadData", load);
    Driver::find(library, op, "cuLibraryGetKernel", kernel);
    Driver::find(library, op, "cuKernelGetFunction", function);
    Driver::find(library, op, "cuKernelGetAttribute", attribute);
    Driver::find(library, op, "cuKernelSetAttribute", set_attribute);
    Driver::find(library, op, "cuLaunchKernelEx", launch);
    Driver::find(library, op, "cuTensorMapEncodeTiled", tensor_map);
  }
};

// A kernel for one architecture, and the functions that came with it. They get pointers to their arguments, of which
// the last is to an int for CUDA's status.
struct HostedImage {
  int32_t arch;  // as in `Image`
  bool is_exact;
  bool is_ptx;
  const void* record;  // what `opsmith audit` reads of it
  void (*init)(void** arguments);
  void (*load)(void** arguments);
  void (*call)(void** arguments, int32_t count);
  void* library;  // the driver's handle, null until it is loaded
};

// A kernel for each architecture of the build, and which of them a GPU has; null until it is loaded there.
struct HostedKernel {
  HostedImage* images;
  int32_t count;
  HostedImage* loaded[most_devices];
};

// The arguments of a host function.
template <int most_arguments, int most_slots>
class HostedArguments {
 public:
  template <class T>
  void add(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "an argument is a number or a pointer");
    begin();
    std::memcpy(next(), &value, sizeof(T));
  }

  // A tensor: its data, its sizes, and its strides without the last, which is 1. One of rank 0 has the data alone.
  template <class T, int N>
  void add(const View<T, N>& view) {
    begin();
    const void* data = view.data;
    std::memcpy(next(), &data, sizeof data);
    for (int dim = 0; dim < N; ++dim) *next() = static_cast<uint64_t>(view.size[dim]);
    for (int dim = 0; dim < N - 1; ++dim) *next() = static_cast<uint64_t>(view.stride[dim]);
  }

  // What the function is called with, and how many those are.
  void** finish(int32_t* status) {
    pointers_[count_] = status;
    return pointers_;
  }
  int32_t count() const { return count_ + 1; }

 private:
  void begin() { pointers_[count_++] = &slots_[slot_count_]; }
  uint64_t* next() { return &slots_[slot_count_++]; }

  int32_t count_ = 0;
  int slot_count_ = 0;
  uint64_t slots_[most_slots + 1] = {};
  void* pointers_[most_arguments + 1];
};

namespace detail {

// What a host function reports in other ways than by its status: it is read when the function has returned.
struct Reported {
  int status = 0;
  char text[512] = {};

  int note(int of_driver) {
    if (status == 0) status = of_driver;
    return of_driver;
  }
};

inline Reported& reported() {
  static thread_local Reported of_thread;
  return of_thread;
}

// Throws for what a host function reports.
inline void check_reported(const Driver& driver, const char* op, int status, const char* what) {
  Reported& found = reported();
  if (found.status == 0 && status == 0 && found.text[0] == '\0') return;
  const Reported copy = found;
  found = Reported{};
  if (copy.text[0] != '\0') fail(op, "(): ", copy.text);
  driver.check(copy.status != 0 ? copy.status : status, op, what);
}

// A launch as CUDA's runtime describes it (cudaLaunchConfig_t), and as its driver does (CUlaunchConfig).
struct RuntimeLaunch {
  unsigned grid[3], block[3];
  uint64_t shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};
struct DriverLaunch {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

// Loads a kernel on a GPU: the driver's library once for all GPUs, its kernels for each.
[[gnu::cold, gnu::noinline]] inline void load(const Driver& driver, const char* op, HostedKernel& kernel, int device) {
  const Lock lock;
  if (kernel.loaded[device] != nullptr) return;  // another thread was faster
  const Relaxed relaxed(driver);
  HostedImage* image = image_for(driver, op, kernel.images, kernel.count, device);
  int32_t status = 0;
  if (image->library == nullptr) {
    void *library = nullptr, **place = &library;
    void* arguments[] = {&place, &status};
    image->init(arguments);
    check_reported(driver, op, status, "when a kernel was loaded");
    image->library = library;
  }
  void** place = &image->library;
  int32_t number = device;
  void* arguments[] = {&place, &number, &status};
  image->load(arguments);
  check_reported(driver, op, status, "when a kernel was looked up");
  __atomic_store_n(&kernel.loaded[device], image, __ATOMIC_RELEASE);
}

}  // namespace detail

// Calls a kernel's host function on the current GPU. `data` is any tensor's address.
template <int most_arguments, int most_slots>
void call(const char* op, HostedKernel& kernel, HostedArguments<most_arguments, most_slots>& arguments,
          const void* data) {
  const Driver& driver = Driver::get(op);
  LibraryDriver::get(op);
  const int device = detail::current_device(driver, op, data);
  const HostedImage* image = __atomic_load_n(&kernel.loaded[device], __ATOMIC_ACQUIRE);
  if (image == nullptr) {
    detail::load(driver, op, kernel, device);
    image = kernel.loaded[device];
  }
  int32_t status = 0;
  image->call(arguments.finish(&status), arguments.count());
  detail::check_reported(driver, op, status, "when a kernel was launched");
}

}  // namespace embedded
}  // namespace opsmith

// What host functions call. Handles, attributes and statuses are the driver's, whose numbers CUDA's runtime shares
// where they pass through here. Nothing throws: there are frames of another compiler's between here and the caller.
extern "C" {

#define OPSMITH_HOSTED [[gnu::visibility("hidden"), gnu::used]] inline

OPSMITH_HOSTED int opsmith_hosted_cudaGetDevice(int* device) {
  using namespace opsmith::embedded;
  return detail::reported().note(Driver::get("").get_device(device));
}

OPSMITH_HOSTED int opsmith_hosted_cudaDeviceGetAttribute(int* value, int attribute, int device) {
  using namespace opsmith::embedded;
  return detail::reported().note(Driver::get("").device_attribute(value, attribute, device));
}

OPSMITH_HOSTED int opsmith_hosted_cudaLibraryLoadData(void** library, const void* code, int* options, void** values,
                                                      unsigned count, int* library_options, void** library_values,
                                                      unsigned library_count) {
  using namespace opsmith::embedded;
  return detail::reported().note(LibraryDriver::get("").load(library, code, options, values, count, library_options,
                                                             library_values, library_count));
}

// Also loads the kernel into the current context: it would be at the first launch, which may be captured.
OPSMITH_HOSTED int opsmith_hosted_cudaLibraryGetKernel(void** kernel, void* library, const char* name) {
  using namespace opsmith::embedded;
  const LibraryDriver& driver = LibraryDriver::get("");
  void *found = nullptr, *function = nullptr;
  int status = driver.kernel(&found, library, name);
  if (status == 0) status = driver.function(&function, found);
  // Another thread may launch it on another GPU meanwhile: the handle is the same one for all.
  if (status == 0) __atomic_store_n(kernel, found, __ATOMIC_RELEASE);
  return detail::reported().note(status);
}

OPSMITH_HOSTED int opsmith_hosted_cuKernelGetAttribute(int* value, int attribute, void* kernel, int device) {
  using namespace opsmith::embedded;
  return detail::reported().note(LibraryDriver::get("").attribute(value, attribute, kernel, device));
}

OPSMITH_HOSTED int opsmith_hosted_cudaKernelSetAttributeForDevice(void* kernel, int attribute, int value, int device) {
  using namespace opsmith::embedded;
  return detail::reported().note(LibraryDriver::get("").set_attribute(attribute, value, kernel, device));
}

OPSMITH_HOSTED int opsmith_hosted_cudaFuncSetAttribute(void* kernel, int attribute, int value) {
  int device = 0;
  const int status = opsmith_hosted_cudaGetDevice(&device);
  return status != 0 ? status : opsmith_hosted_cudaKernelSetAttributeForDevice(kernel, attribute, value, device);
}

OPSMITH_HOSTED int opsmith_hosted_cudaLaunchKernelEx(const opsmith::embedded::detail::RuntimeLaunch* launch,
                                                     void* kernel, void** arguments) {
  using namespace opsmith::embedded;
  const detail::DriverLaunch config = {{launch->grid[0], launch->grid[1], launch->grid[2]},
                                       {launch->block[0], launch->block[1], launch->block[2]},
                                       static_cast<unsigned>(launch->shared_bytes),
                                       launch->stream,
                                       launch->attributes,
                                       launch->attribute_count};
  constexpr int invalid_value = 1;
  detail::Reported& found = detail::reported();
  // A host function goes on after what it prints.
  if (found.text[0] != '\0' || config.shared_bytes != launch->shared_bytes) return found.note(invalid_value);
  return found.note(LibraryDriver::get("").launch(&config, kernel, arguments, nullptr));
}

OPSMITH_HOSTED int opsmith_hosted_cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* data,
                                                         const uint64_t* sizes, const uint64_t* strides,
                                                         const unsigned* box, const unsigned* element_strides,
                                                         int interleave, int swizzle, int promotion, int fill) {
  using namespace opsmith::embedded;
  return detail::reported().note(LibraryDriver::get("").tensor_map(
      map, type, rank, data, sizes, strides, box, element_strides, interleave, swizzle, promotion, fill));
}

// Host functions report with `printf` that a launch would have too much shared memory. What else a kernel's author
// prints is printed.
[[gnu::format(printf, 1, 2)]] OPSMITH_HOSTED int opsmith_hosted_printf(const char* format, ...) {
  opsmith::embedded::detail::Reported& found = opsmith::embedded::detail::reported();
  std::va_list values;
  va_start(values, format);
  int count = 0;
  const char* text = format + std::strspn(format, "\n");
  if (std::strncmp(text, "Error: ", 7) != 0) {
    count = std::vprintf(format, values);
  } else if (found.text[0] == '\0') {
    count = std::vsnprintf(found.text, sizeof found.text, text + 7, values);
    for (size_t end = std::strlen(found.text); end > 0 && found.text[end - 1] == '\n'; --end) found.text[end - 1] = 0;
  }
  va_end(values);
  return count;
}

#undef OPSMITH_HOSTED
}
