// What a view kernel includes: the types it takes, and the tools to run on a CPU or a GPU. No framework header is here.
//
// A view kernel is a function template at global scope with the operator's name. Its parameters are the operator's
// inputs in the order of the definition, then its outputs, which arrive allocated and uninitialised; on a GPU the last
// one is the stream. The generated binding includes the file and instantiates the template for each element type.
//
//     template <class T>
//     void scale(View<const T, 1> x, double factor, View<T, 1> y);                 // scale.cpp
//
//     template <class T>
//     void scale(View<const T, 1> x, double factor, View<T, 1> y, Stream stream);  // scale.cu, for CUDA and HIP
//
// An operator's CPU and GPU files are linked into one library: keep helpers in an anonymous namespace.
//
//   types.h        float16, bfloat16, compute_t
//   view.h         View, List, ViewList
//   error.h        fail
//   cpu.h          parallel_for, with_best_isa                         (host compilers)
//   gpu.h          Stream, check_launch, blocks_for, Vector            (nvcc, hipcc)
//   math.h         exp, tanh, sigmoid, ...                             (included by the kernels that need it)
//   elementwise.h  the whole loop of an elementwise operator           (likewise)
//   two_results.h  such a loop with two results                        (likewise)
//   divide.h       divide_up                                          (likewise)
//   reduce.h       the sum of an elementwise function                  (likewise)
//   workspace.h    memory for the length of a call                     (likewise; nvcc, hipcc)
//   early_launch.h launches that overlap with the kernel before them   (likewise; nvcc, hipcc)
//   lanes.h        shuffles and sums over the lanes of a warp          (likewise; nvcc, hipcc)
//   block.h        16-bit and strided data as dense arrays of floats   (likewise; host compilers)
//   product.h      products of small matrices                          (likewise; host compilers)
#pragma once

#include "error.h"
#include "types.h"
#include "view.h"
#if defined(__CUDACC__) || defined(__HIPCC__)
#include "gpu.h"
#else
#include "cpu.h"
#endif
