// Stands in for libamdhip64.so: it records what a launcher asks for, and fails where a test wants it to.
#include "fake_records.h"

static char arch[256] = "gfx90a:sramecc+:xnack-";
static uint64_t shared_limit = 65536;
static int device, stale;

void fake_gpu(int gpu, const char* of_arch, int limit) {
  device = gpu, shared_limit = (uint64_t)limit;
  snprintf(arch, sizeof arch, "%s", of_arch);
}
// The error that a thread's next question for the last one would get.
int fake_stale(void) { return stale; }

static Status told(const char* function) {
  const Status status = result(function);
  if (status != 0) stale = status;
  return status;
}

Status hipGetDevice(int* found) {
  *found = device;
  return told("hipGetDevice");
}
Status hipGetDevicePropertiesR0600(void* properties, int of) {
  RECORD("properties of %d\n", of);
  memset(properties, 0xAA, 1472);
  memcpy((char*)properties + 296, &shared_limit, sizeof shared_limit);
  memcpy((char*)properties + 1160, arch, sizeof arch);
  return told("hipGetDevicePropertiesR0600");
}
Status hipModuleLoadData(void** module, const void* image) {
  *module = record_load(image);
  return told("hipModuleLoadData");
}
Status hipModuleGetFunction(void** function, void* module, const char* name) {
  RECORD("function %s\n", name);
  *function = function_of(module, name);
  return told("hipModuleGetFunction");
}
Status hipThreadExchangeStreamCaptureMode(int* mode) {
  static int current;
  const int before = current;
  current = *mode;
  *mode = before;
  RECORD("capture %d\n", current);
  return 0;
}
Status hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, void* stream, void** values, void** extra) {
  (void)extra;
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  record_launch(function, grid, block, shared, stream, values);
  return told("hipModuleLaunchKernel");
}
Status hipGetLastError(void) {
  const Status status = stale;
  stale = 0;
  return status;
}
const char* hipGetErrorName(Status status) {
  return status == 209 ? "hipErrorNoBinaryForGpu" : status == 1 ? "hipErrorInvalidValue" : "hipErrorUnknown";
}
const char* hipGetErrorString(Status status) { return status == 0 ? "no error" : "as HIP says it"; }
