// Pieces of a tensor as short dense arrays of the type to compute in: what lets a CPU kernel be one float loop.
//
// A vectorised loop is the costly part of a kernel's compilation, and it exists for each instruction set already. With
// 16-bit types in it too, lltm took g++ 3.5 s. With their conversions in loops of their own, which all inputs and
// outputs share, it takes 1.0 s and runs as fast. Strided tensors come in by the same door.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu.h"
#include "types.h"
#include "view.h"

namespace opsmith {

// Elements in a block. With some ten blocks of floats in use, all of them stay in the first-level cache.
constexpr int64_t block_size = 512;

namespace detail {

// The processor's own conversions of float16, for as many of n elements as fill its registers; the number of them is
// returned. g++ 12 makes no vectors of F16C's instructions by itself, and half_to_float and float_to_half, which it
// does, take three times as long. These give the same bits. They are builtins because <immintrin.h> would add half a
// second to each compilation; g++ and clang++ have them under the same names.
#if OPSMITH_CHOOSES_ISA
using Float16s = float __attribute__((vector_size(64)));
using Float8s = float __attribute__((vector_size(32)));
using Half16s = short __attribute__((vector_size(32)));
using Half8s = short __attribute__((vector_size(16)));
constexpr int to_nearest = 0;        // _MM_FROUND_TO_NEAREST_INT
constexpr int current_rounding = 4;  // _MM_FROUND_CUR_DIRECTION

__attribute__((target("avx512f"))) inline int64_t widen_avx512(const float16* from, int64_t n, float* to) {
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) {
    Half16s halves;
    __builtin_memcpy(&halves, from + k, sizeof(halves));
    const Float16s floats = __builtin_ia32_vcvtph2ps512_mask(halves, Float16s{}, -1, current_rounding);
    __builtin_memcpy(to + k, &floats, sizeof(floats));
  }
  return k;
}
__attribute__((target("avx512f"))) inline int64_t narrow_avx512(const float* from, int64_t n, float16* to) {
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) {
    Float16s floats;
    __builtin_memcpy(&floats, from + k, sizeof(floats));
    const Half16s halves = __builtin_ia32_vcvtps2ph512_mask(floats, to_nearest, Half16s{}, -1);
    __builtin_memcpy(to + k, &halves, sizeof(halves));
  }
  return k;
}
__attribute__((target("avx2,f16c"))) inline int64_t widen_avx2(const float16* from, int64_t n, float* to) {
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    Half8s halves;
    __builtin_memcpy(&halves, from + k, sizeof(halves));
    const Float8s floats = __builtin_ia32_vcvtph2ps256(halves);
    __builtin_memcpy(to + k, &floats, sizeof(floats));
  }
  return k;
}
__attribute__((target("avx2,f16c"))) inline int64_t narrow_avx2(const float* from, int64_t n, float16* to) {
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    Float8s floats;
    __builtin_memcpy(&floats, from + k, sizeof(floats));
    const Half8s halves = __builtin_ia32_vcvtps2ph256(floats, to_nearest);
    __builtin_memcpy(to + k, &halves, sizeof(halves));
  }
  return k;
}

// Every processor with AVX2 has F16C, which is older.
inline int64_t widen(const float16* from, int64_t n, float* to) {
  return has_avx512() ? widen_avx512(from, n, to) : has_avx2() ? widen_avx2(from, n, to) : 0;
}
inline int64_t narrow(const float* from, int64_t n, float16* to) {
  return has_avx512() ? narrow_avx512(from, n, to) : has_avx2() ? narrow_avx2(from, n, to) : 0;
}
#else
inline int64_t widen(const float16*, int64_t, float*) { return 0; }
inline int64_t narrow(const float*, int64_t, float16*) { return 0; }
#endif

// No other type has instructions that are worth it.
template <class T>
int64_t widen(const T*, int64_t, compute_t<T>*) {
  return 0;
}
template <class T>
int64_t narrow(const compute_t<T>*, int64_t, T*) {
  return 0;
}

}  // namespace detail

// Copies n elements into a dense array of the type to compute in. Not inlined, as its counterpart below: these exist
// once for each type, not once for each use.
template <class T>
__attribute__((noinline)) void load_block(const T* from, int64_t stride, int64_t n, compute_t<T>* to) {
  if (stride == 1) {
    const int64_t done = detail::widen(from, n, to);
    with_best_isa(
        [](int64_t n, const T* __restrict__ from, compute_t<T>* __restrict__ to) {
          for (int64_t k = 0; k < n; ++k) to[k] = static_cast<compute_t<T>>(from[k]);
        },
        n - done, from + done, to + done);
  } else {
    for (int64_t k = 0; k < n; ++k) to[k] = static_cast<compute_t<T>>(from[k * stride]);
  }
}

// Copies n elements back, rounding them.
template <class T>
__attribute__((noinline)) void store_block(const compute_t<T>* from, int64_t n, T* to, int64_t stride) {
  if (stride == 1) {
    const int64_t done = detail::narrow(from, n, to);
    with_best_isa(
        [](int64_t n, const compute_t<T>* __restrict__ from, T* __restrict__ to) {
          for (int64_t k = 0; k < n; ++k) to[k] = static_cast<T>(from[k]);
        },
        n - done, from + done, to + done);
  } else {
    for (int64_t k = 0; k < n; ++k) to[k * stride] = static_cast<T>(from[k]);
  }
}

// Whether elements of type T at this stride are a dense array of compute_t<T> as they are: then blocks have no limit.
template <class T>
bool is_direct(int64_t stride) {
  return std::is_same_v<T, compute_t<T>> && stride == 1;
}

// n elements to read, n <= block_size: `data` points to the elements themselves where is_direct, else to a copy.
template <class T>
class InputBlock {
 public:
  InputBlock(const T* from, int64_t stride, int64_t n) {
    if constexpr (std::is_same_v<T, compute_t<T>>) {
      if (stride == 1) {
        data = from;
        return;
      }
    }
    load_block(from, stride, n, buffer_);
    data = buffer_;
  }
  InputBlock(const InputBlock&) = delete;

  const compute_t<T>* data;

 private:
  compute_t<T> buffer_[block_size];
};

// n elements to write, likewise: fill data[0] to data[n - 1], then call store().
template <class T>
class OutputBlock {
 public:
  OutputBlock(T* to, int64_t stride, int64_t n) : to_(to), stride_(stride), n_(n) {
    data = buffer_;
    if constexpr (std::is_same_v<T, compute_t<T>>) {
      if (stride == 1) data = to;
    }
  }
  OutputBlock(const OutputBlock&) = delete;

  void store() {
    if (data == buffer_) store_block(buffer_, n_, to_, stride_);
  }

  compute_t<T>* data;

 private:
  T* to_;
  int64_t stride_;
  int64_t n_;
  compute_t<T> buffer_[block_size];
};

}  // namespace opsmith
