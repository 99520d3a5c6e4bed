// HIP's runtime, looked up where the process has it: a library that launches kernels with it also loads where there is
// none. No header of HIP's is needed.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <initializer_list>

#include "error.h"

namespace opsmith {
namespace embedded {

// The functions of HIP's runtime that a launch needs. Their types are those of hip_runtime_api.h, in which a handle is
// a pointer and a status an int.
class Driver {
 public:
  using Status = int;

  Status (*get_device)(int* device);
  Status (*device_properties)(void* properties, int device);
  Status (*load)(void** module, const void* image);
  Status (*function)(void** function, void* module, const char* name);
  Status (*capture_mode)(int* mode);
  Status (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments,
                   void** extra);
  Status (*last_error)();
  const char* (*error_name)(Status status);
  const char* (*error_text)(Status status);

  // The runtime of this process. Throws where there is none.
  static const Driver& get(const char* op) {
    static const Driver driver(op);
    return driver;
  }

  void check(Status status, const char* op, const char* what) const {
    if (status != 0) refuse(status, op, what);
  }

 private:
  explicit Driver(const char* op) {
    void* library = open(op);
    find(library, op, "hipGetDevice", get_device);
    // The name stands for a layout of the properties, that of ROCm 6 and newer.
    find(library, op, "hipGetDevicePropertiesR0600", device_properties);
    find(library, op, "hipModuleLoadData", load);
    find(library, op, "hipModuleGetFunction", function);
    find(library, op, "hipThreadExchangeStreamCaptureMode", capture_mode);
    find(library, op, "hipModuleLaunchKernel", launch);
    find(library, op, "hipGetLastError", last_error);
    find(library, op, "hipGetErrorName", error_name);
    find(library, op, "hipGetErrorString", error_text);
  }

  // The runtime that torch uses: a process may find several, and streams of one mean nothing to another. What torch's
  // library is asked for is looked up in those that it is linked to as well, whatever their version.
  static void* open(const char* op) {
    if (void* torch = dlopen("libtorch_hip.so", RTLD_LAZY | RTLD_NOLOAD)) {
      if (dlsym(torch, "hipModuleLaunchKernel") != nullptr) return torch;
      dlclose(torch);
    }
    for (int loading : {RTLD_NOLOAD, 0}) {
      for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
        if (void* library = dlopen(name, RTLD_LAZY | loading)) return library;
      }
    }
    fail(op, "(): its kernel is compiled for AMD's GPUs, and this process has no HIP runtime (", dlerror(),
         "). It needs a torch for ROCm; for another GPU build the library here: `pip install --force-reinstall "
         "--no-deps "
         "--no-build-isolation --no-binary PACKAGE PACKAGE`");
  }

  template <class Function>
  static void find(void* library, const char* op, const char* name, Function*& found) {
    found = reinterpret_cast<Function*>(dlsym(library, name));
    if (found == nullptr) fail(op, "(): the HIP runtime of this process has no ", name, "; ROCm 6 and newer have it");
  }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(Status status, const char* op, const char* what) const {
    // It is told here. HIP would also tell it to whoever asks for the last error next, such as torch after a launch.
    last_error();
    const char *name = error_name(status), *text = error_text(status);
    fail(op, "(): HIP error: ", text != nullptr ? text : "", " (", name != nullptr ? name : "unknown error", ") ",
         what);
  }
};

}  // namespace embedded
}  // namespace opsmith
