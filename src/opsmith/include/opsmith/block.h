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

// Copies n elements into a dense array of the type to compute in. Not inlined, as its counterpart below: these exist
// once for each type, not once for each use.
template <class T>
__attribute__((noinline)) void load_block(const T* from, int64_t stride, int64_t n, compute_t<T>* to) {
  if (stride == 1) {
    with_best_isa(
        [](int64_t n, const T* __restrict__ from, compute_t<T>* __restrict__ to) {
          for (int64_t k = 0; k < n; ++k) to[k] = static_cast<compute_t<T>>(from[k]);
        },
        n, from, to);
  } else {
    for (int64_t k = 0; k < n; ++k) to[k] = static_cast<compute_t<T>>(from[k * stride]);
  }
}

// Copies n elements back, rounding them.
template <class T>
__attribute__((noinline)) void store_block(const compute_t<T>* from, int64_t n, T* to, int64_t stride) {
  if (stride == 1) {
    with_best_isa(
        [](int64_t n, const compute_t<T>* __restrict__ from, T* __restrict__ to) {
          for (int64_t k = 0; k < n; ++k) to[k] = static_cast<T>(from[k]);
        },
        n, from, to);
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
