// Launches that overlap with the kernel before them, for kernels that take no longer than what lies between two
// launches.
//
// A GPU begins a kernel about a microsecond after the one before it in the stream has ended. CUDA's programmatic
// dependent launch (compute capability 9.0 on) brings its blocks up before that: they work out their indices while the
// other kernel ends, and wait for its results themselves. Elsewhere these are launches like any other.
#pragma once

#include <cstddef>

#include "atomic.h"
#include "gpu.h"

namespace opsmith {

// The first thing in a kernel for launch_early(): every thread calls it before it reads or writes any memory but its
// own and that of its block. From here on all that earlier kernels of the stream have written is there.
//
// Only then may the kernel behind this one come up, so whatever that reads without waiting was written before this one.
__device__ inline void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// For a kernel that is launched as any other: lets the one behind it come up while this one still runs. That one is
// launched early and waits for the end of this one, as above.
__device__ inline void let_next_kernel_come_up() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

namespace detail {

#if !defined(__HIPCC__)
// Whether the code of this kernel that the current GPU runs has its wait in it: a GPU that could launch early may have
// got code that was compiled for older ones. Asked once for each GPU; threads that ask at the same time get one answer.
template <auto kernel>
bool waits_for_earlier_kernels() {
  constexpr int most_devices = 64;
  static Atomic<int> known[most_devices];  // 0 where nobody has asked, else 1 for no and 2 for yes
  int device = 0;
  const bool has_place = cudaGetDevice(&device) == cudaSuccess && device < most_devices;
  if (has_place && known[device].load() != 0) return known[device].load() == 2;
  cudaFuncAttributes attributes{};
  const bool answer = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
  if (has_place) known[device].store(answer ? 2 : 1);
  return answer;
}
#endif

}  // namespace detail

// Launches a kernel that begins with wait_for_earlier_kernels(). `op` is the operator's name, for errors.
template <auto kernel, class... Argument>
void launch_early(const char* op, dim3 blocks, dim3 threads, size_t shared_bytes, Stream stream,
                  const Argument&... arguments) {
#if defined(__HIPCC__)
  kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...);
#else
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = detail::waits_for_earlier_kernels<kernel>() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);  // its error is what check_launch finds
#endif
  check_launch(op);
}

}  // namespace opsmith
