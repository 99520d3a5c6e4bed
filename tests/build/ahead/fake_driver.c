// Stands in for libcuda.so.1: it records what a launcher asks for, and fails where a test wants it to.
#include "fake_records.h"

static int major = 9, minor = 0, shared_limit = 232448, device, has_context = 1, static_shared;
void fake_gpu(int gpu, int of_major, int of_minor, int limit) {
  device = gpu, major = of_major, minor = of_minor, shared_limit = limit;
}
void fake_static_shared(int bytes) { static_shared = bytes; }
void fake_context(int is_there) { has_context = is_there; }

Status cuCtxGetCurrent(void** context) {
  *context = has_context ? (void*)0x100 : 0;
  return result("cuCtxGetCurrent");
}
Status cuCtxSetCurrent(void* context) {
  RECORD("set_context %p\n", context);
  has_context = 1;
  return 0;
}
Status cuCtxGetDevice(int* found) {
  *found = device;
  return 0;
}
Status cuDevicePrimaryCtxRetain(void** context, int of) {
  RECORD("retain %d\n", of);
  *context = (void*)0x200;
  return 0;
}
Status cuPointerGetAttribute(void* value, int attribute, uint64_t pointer) {
  RECORD("pointer_attribute %d of %llu\n", attribute, (unsigned long long)pointer);
  *(int*)value = device;
  return 0;
}
Status cuDeviceGetAttribute(int* value, int attribute, int of) {
  (void)of;
  *value = attribute == 75 ? major : attribute == 76 ? minor : attribute == 97 ? shared_limit : -1;
  return 0;
}
Status cuModuleLoadData(void** module, const void* image) {
  *module = record_load(image);
  return result("cuModuleLoadData");
}
Status cuModuleGetFunction(void** function, void* module, const char* name) {
  RECORD("function %s\n", name);
  *function = function_of(module, name);
  return result("cuModuleGetFunction");
}
// A library's handle is the address of its code, as a module's is; a kernel's is that of its function.
Status cuLibraryLoadData(void** library, const void* image, int* options, void** values, unsigned count,
                         int* library_options, void** library_values, unsigned library_count) {
  (void)options, (void)values, (void)library_options, (void)library_values;
  RECORD("library %llu options %u %u\n", (unsigned long long)(uintptr_t)image, count, library_count);
  *library = (void*)(uintptr_t)image;
  return result("cuLibraryLoadData");
}
Status cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  RECORD("kernel %s\n", name);
  *kernel = function_of(library, name);
  return result("cuLibraryGetKernel");
}
Status cuKernelGetFunction(void** function, void* kernel) {
  RECORD("function_of_kernel on %d\n", device);
  *function = kernel;
  return result("cuKernelGetFunction");
}
Status cuKernelGetAttribute(int* value, int attribute, void* kernel, int of) {
  (void)kernel, (void)of;
  *value = attribute == 1 ? static_shared : -1;
  return 0;
}
Status cuKernelSetAttribute(int attribute, int value, void* kernel, int of) {
  (void)kernel;
  RECORD("set_kernel %d %d on %d\n", attribute, value, of);
  return result("cuKernelSetAttribute");
}
Status cuTensorMapEncodeTiled(void) { return 0; }
Status cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  RECORD("set_function %d %d\n", attribute, value);
  return 0;
}
Status cuFuncGetAttribute(int* value, int attribute, void* function) {
  (void)function;
  *value = attribute == 1 ? static_shared : -1;
  return 0;
}
Status cuThreadExchangeStreamCaptureMode(int* mode) {
  (void)mode;
  return 0;
}
Status cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void* stream, void** values, void** extra) {
  (void)extra;
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  record_launch(function, grid, block, shared, stream, values);
  return result("cuLaunchKernel");
}
struct Launch {  // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  void* stream;
  const struct {
    int id;
    char value[64] __attribute__((aligned(8)));
  }* attributes;
  unsigned attribute_count;
};
Status cuLaunchKernelEx(const struct Launch* launch, void* function, void** values, void** extra) {
  (void)extra;
  for (unsigned index = 0; index < launch->attribute_count; ++index) {
    int value;
    memcpy(&value, launch->attributes[index].value, sizeof value);
    RECORD("attribute %d %d\n", launch->attributes[index].id, value);
  }
  record_launch(function, launch->grid, launch->block, launch->shared, launch->stream, values);
  return result("cuLaunchKernelEx");
}
Status cuGetErrorName(Status status, const char** name) {
  *name = status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : status == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : 0;
  return *name == 0;
}
Status cuGetErrorString(Status status, const char** text) {
  *text = "as the driver says it";
  return status == 0;
}
