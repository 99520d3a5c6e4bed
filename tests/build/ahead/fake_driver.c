// Stands in for libcuda.so.1: it records what a launcher asks for, and fails where a test wants it to.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int Status;

static char records[1 << 16];
static char failing[64];
static int code, arguments, major = 9, minor = 0, shared_limit = 232448, device, has_context = 1, static_shared;
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
Status cuModuleGetFunction(void** function, void* module, const char* name) {
  RECORD("function %s\n", name);
  int at = 0;
  while (at < function_count && (functions[at].module != module || strcmp(functions[at].name, name) != 0)) ++at;
  if (at == function_count) {
    functions[function_count].module = module;
    snprintf(functions[function_count++].name, sizeof functions[0].name, "%s", name);
  }
  *function = &functions[at];
  return result("cuModuleGetFunction");
}
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
  RECORD("launch %llu grid %u %u %u block %u %u %u shared %u stream %llu arguments",
         (unsigned long long)(uintptr_t)((struct Function*)function)->module, gx, gy, gz, bx, by, bz, shared,
         (unsigned long long)(uintptr_t)stream);
  for (int index = 0; index < arguments; ++index) {
    uint64_t value;
    memcpy(&value, values[index], sizeof value);
    RECORD(" %llu", (unsigned long long)value);
  }
  RECORD("\nlaunched %s\n", ((struct Function*)function)->name);
  return result("cuLaunchKernel");
}
Status cuGetErrorName(Status status, const char** name) {
  *name = status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : status == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : 0;
  return *name == 0;
}
Status cuGetErrorString(Status status, const char** text) {
  *text = "as the driver says it";
  return status == 0;
}
