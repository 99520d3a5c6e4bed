// OPSMITH_HOST_DEVICE: marks a small function for a kernel's inner loop, callable on the host and on GPUs.
//
// Attributes have no other spelling, so this is a macro. On the host the function is always inlined: a call in a loop
// would keep it from being vectorised, and clang's inliner gives up on bodies the size of an exponential.
#pragma once

#if defined(__CUDACC__) || defined(__HIPCC__)
#define OPSMITH_HOST_DEVICE __host__ __device__ inline
#elif defined(__GNUC__)
#define OPSMITH_HOST_DEVICE __attribute__((always_inline)) inline
#else
#define OPSMITH_HOST_DEVICE inline
#endif
