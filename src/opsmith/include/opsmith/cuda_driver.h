// CUDA's driver, looked up where the process has it: a library that launches kernels with it also loads where there is
// none. No header of CUDA's is needed.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "error.h"

namespace opsmith {
namespace embedded {

// The functions of CUDA's driver that a launch needs. Their types are those of cuda.h, in which a handle is a pointer
// and a status, device or attribute an int.
class Driver {
 public:
  using Status = int;

  Status (*get_context)(void** context);
  Status (*set_context)(void* context);
  Status (*get_device)(int* device);
  Status (*retain_context)(void** context, int device);
  Status (*device_attribute)(int* value, int attribute, int device);
  Status (*pointer_attribute)(void* value, int attribute, uint64_t pointer);
  Status (*load)(void** module, const void* image);
  Status (*function)(void** function, void* module, const char* name);
  Status (*set_function)(void* function, int attribute, int value);
  Status (*function_attribute)(int* value, int attribute, void* function);
  Status (*capture_mode)(int* mode);
  Status (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments,
                   void** extra);
  Status (*error_name)(Status status, const char** name);
  Status (*error_text)(Status status, const char** text);

  // The driver of this process. Throws where there is none.
  static const Driver& get(const char* op) {
    static const Driver driver(op);
    return driver;
  }

  void check(Status status, const char* op, const char* what) const {
    if (status != 0) refuse(status, op, what);
  }

  static void* open(const char* op) {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library == nullptr) fail(op, "(): this process has no CUDA driver: ", dlerror());
    return library;
  }

  template <class Function>
  static void find(void* library, const char* op, const char* name, Function*& found) {
    found = reinterpret_cast<Function*>(dlsym(library, name));
    if (found == nullptr) fail(op, "(): the CUDA driver of this machine has no ", name, "; update it");
  }

 private:
  explicit Driver(const char* op) {
    void* library = open(op);
    find(library, op, "cuCtxGetCurrent", get_context);
    find(library, op, "cuCtxSetCurrent", set_context);
    find(library, op, "cuCtxGetDevice", get_device);
    find(library, op, "cuDevicePrimaryCtxRetain", retain_context);
    find(library, op, "cuDeviceGetAttribute", device_attribute);
    find(library, op, "cuPointerGetAttribute", pointer_attribute);
    find(library, op, "cuModuleLoadData", load);
    find(library, op, "cuModuleGetFunction", function);
    find(library, op, "cuFuncSetAttribute", set_function);
    find(library, op, "cuFuncGetAttribute", function_attribute);
    find(library, op, "cuThreadExchangeStreamCaptureMode", capture_mode);
    find(library, op, "cuLaunchKernel", launch);
    find(library, op, "cuGetErrorName", error_name);
    find(library, op, "cuGetErrorString", error_text);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(Status status, const char* op, const char* what) const {
    const char *name = "unknown error", *text = "";
    if (error_name(status, &name) != 0) name = "unknown error";
    if (error_text(status, &text) != 0) text = "";
    fail(op, "(): CUDA error: ", text, " (", name, ") ", what);
  }
};

}  // namespace embedded
}  // namespace opsmith
