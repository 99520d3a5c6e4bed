// The stream that PyTorch uses on a GPU at the moment, for bindings and for native kernels.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <initializer_list>

#include "error.h"

namespace opsmith {

// A function of the torch library that serves the GPU, looked up where that library is loaded. Linking to it instead
// would make a library with CPU and GPU kernels unloadable where torch is a CPU build. Keep what it returns:
//
//     static const auto f =
//     reinterpret_cast<decltype(&aoti_torch_cuda_name)>(find_gpu_function("aoti_torch_cuda_name"));
inline void* find_gpu_function(const char* name) {
  for (const char* library : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    if (void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      void* found = dlsym(handle, name);
      dlclose(handle);  // NOLOAD counted one reference; torch keeps the library
      if (found != nullptr) return found;
    }
  }
  fail("this torch has no GPU library that offers ", name);
}

// The stream that PyTorch currently uses on a GPU: a cudaStream_t or a hipStream_t.
inline void* current_stream(int32_t device_index) {
  using Function = int32_t (*)(int32_t, void**);
  static const auto get = reinterpret_cast<Function>(find_gpu_function("aoti_torch_get_current_cuda_stream"));
  void* stream = nullptr;
  if (get(device_index, &stream) != 0) fail("torch gives no current stream for GPU ", device_index);
  return stream;
}

}  // namespace opsmith
