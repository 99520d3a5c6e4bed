// What a GPU kernel's host side needs from CUDA or HIP, under one name each, and 16-byte vectors of elements.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#endif

#include "error.h"
#include "host_device.h"
#include "types.h"

namespace opsmith {

#if defined(__HIPCC__)
using Stream = hipStream_t;
#else
using Stream = cudaStream_t;
#endif

#if !defined(__HIPCC__)
// Throws for a library that has code for other GPUs alone.
[[noreturn]] inline void refuse_gpu(const char* op) {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  fail(op,
       "(): CUDA error: no kernel image is available for execution on the device (cudaErrorNoKernelImageForDevice). ",
       "The library has neither machine code for this GPU, of compute capability ", major, ".", minor,
       ", nor PTX that fits it. Build it here: `pip install --force-reinstall --no-deps --no-build-isolation "
       "--no-binary PACKAGE PACKAGE`");
}

// Throws for a driver that is older than the CUDA the library is built with, or older than its PTX.
[[noreturn]] inline void refuse_driver(const char* op, cudaError_t status) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) fail(op, "(): CUDA error: this machine has no NVIDIA driver (", cudaGetErrorName(status), ")");
  const auto minor = [](int version) { return version % 1000 / 10; };
  fail(op, "(): CUDA error: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
       "). The library is built with CUDA ", runtime / 1000, ".", minor(runtime), ", and the driver is for CUDA ",
       driver / 1000, ".", minor(driver), ". Update the driver, or build the package with an nvcc that is no newer: ",
       "`pip install --force-reinstall --no-deps --no-build-isolation --no-binary PACKAGE PACKAGE`");
}
#endif

// Throws when the launch before it failed, naming the operator. It also reports what an earlier kernel of this thread
// left unreported. A kernel that fails while it runs shows up in a later call: launches do not wait for kernels.
inline void check_launch(const char* op) {
#if defined(__HIPCC__)
  const hipError_t status = hipGetLastError();
  if (status != hipSuccess) fail(op, "(): HIP error: ", hipGetErrorString(status), " (", hipGetErrorName(status), ")");
#else
  const cudaError_t status = cudaGetLastError();
  if (status == cudaErrorNoKernelImageForDevice) refuse_gpu(op);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorUnsupportedPtxVersion) refuse_driver(op, status);
  if (status != cudaSuccess) {
    fail(op, "(): CUDA error: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
  }
#endif
}

// How many blocks of `threads` threads to launch for n items. At least 1, and capped, so the kernel has to loop over
// the items with a stride of the whole grid. CUDA allows 2^31 - 1 blocks, HIP fewer than 2^32 threads; the cap keeps to
// both and is far above what any GPU runs at once.
inline unsigned blocks_for(int64_t n, int threads) {
  constexpr int64_t cap = int64_t{1} << 21;
  const int64_t blocks = (n + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > cap ? cap : blocks);
}

// N elements that are loaded and stored as one. Its address must be a multiple of its size.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T item[N];
};

// Two floats rounded to 16 bits each, the first in the lower half: one instruction, where two conversions and joining
// them are three. T is float16 or bfloat16.
template <class T>
__device__ uint32_t rounded_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t pair;
  if constexpr (std::is_same_v<T, float16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return T(low).bits | static_cast<uint32_t>(T(high).bits) << 16;
#endif
}

// The values as a vector of T, each rounded once.
template <class T, int N>
__device__ Vector<T, N> rounded(const compute_t<T> (&values)[N]) {
  Vector<T, N> result;
  if constexpr (std::is_same_v<T, compute_t<T>> || N % 2 != 0) {
#pragma unroll
    for (int k = 0; k < N; ++k) result.item[k] = static_cast<T>(values[k]);
  } else {
    Vector<uint32_t, N / 2> pairs;
#pragma unroll
    for (int k = 0; k < N / 2; ++k) pairs.item[k] = rounded_pair<T>(values[2 * k], values[2 * k + 1]);
    result = bit_cast<Vector<T, N>>(pairs);
  }
  return result;
}

// Whether an address is a multiple of `bytes`.
inline bool is_aligned(const void* address, int bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

}  // namespace opsmith
