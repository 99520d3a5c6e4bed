// Stands in for libcuda.so.1: it records what a launcher asks for, and fails where a test wants it to.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int Status;

static char records[1 << 16];
static char failing[64];
static int code, arguments, words = 1, major = 9, minor = 0, shared_limit = 232448, device, has_context = 1,
                            static_shared;
// A function's handle: its module, which is the address of the image, and its name.
static struct Function {
  void* module;
  char name[256];
} functions[256];
static int function_count;
static const char* log_end(void) { return records + sizeof records; }

#define RECORD(...) snprintf(records + strlen(records), (size_t)(log_end() - records) - strlen(records), __VA_ARGS__)

const char* fake_records(void) { return records; }
void fake_clear(int number_of_arguments) {
  records[0] = 0;
  arguments = number_of_arguments;
  failing[0] = 0;
}
void fake_fail(const char* function, int status) {
  snprintf(failing, sizeof failing, "%s", function);
  code = status;
}
void fake_gpu(int gpu, int of_major, int of_minor, int limit) {
  device = gpu, major = of_major, minor = of_minor, shared_limit = limit;
}
// How many times 8 bytes of each argument are recorded.
void fake_words(int of_argument) { words = of_argument; }
void fake_static_shared(int bytes) { static_shared = bytes; }
void fake_context(int is_there) { has_context = is_there; }

static Status result(const char* function) { return strcmp(failing, function) == 0 ? code : 0; }

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
  RECORD("load %llu\n", (unsigned long long)(uintptr_t)image);
  *module = (void*)(uintptr_t)image;
  return result("cuModuleLoadData");
}
static struct Function* function_of(void* module, const char* name) {
  int at = 0;
  while (at < function_count && (functions[at].module != module || strcmp(functions[at].name, name) != 0)) ++at;
  if (at == function_count) {
    functions[function_count].module = module;
    snprintf(functions[function_count++].name, sizeof functions[0].name, "%s", name);
  }
  return &functions[at];
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
static void record_launch(struct Function* function, const unsigned* grid, const unsigned* block, unsigned shared,
                          void* stream, void** values) {
  RECORD("launch %llu grid %u %u %u block %u %u %u shared %u stream %llu arguments",
         (unsigned long long)(uintptr_t)function->module, grid[0], grid[1], grid[2], block[0], block[1], block[2],
         shared, (unsigned long long)(uintptr_t)stream);
  for (int index = 0; index < arguments * words; ++index) {
    uint64_t value;
    memcpy(&value, (const char*)values[index / words] + index % words * 8, sizeof value);
    RECORD(" %llu", (unsigned long long)value);
  }
  RECORD("\nlaunched %s\n", function->name);
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
