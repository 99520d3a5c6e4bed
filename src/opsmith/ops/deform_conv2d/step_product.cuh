// How eight warps multiply two tiles in shared memory, by steps of 64 bytes of summands. 16-bit types go through the
// tensor cores where NVIDIA's GPUs have instructions for them, and so do floats where the caller allows them to be
// rounded to ten bits (TF32); else floats and doubles are multiplied as such.
#pragma once

#include "../_gpu/shared_memory.cuh"
#include "gpu_points.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

constexpr int product_threads = 256;
constexpr int product_rows = 128;

// A tile of `lines` rows, or columns, of 64 bytes, by chunks of 16. Chunks are exchanged within a line, so that those
// of eight lines next to each other are in different banks, whichever it is of each.
template <class T, int lines>
struct alignas(128) StepTile {
  T data[lines * step_width<T>];

  static __device__ int place(int line, int chunk) {
    return line * step_width<T> + (chunk ^ line / 2 % 4) * chunk_width<T>;
  }
};

// The sums of a thread for a tile of 128 rows by `columns`.
template <class T, int columns, bool tf32>
class StepProduct {
  using C = compute_t<T>;
  static_assert(!tf32 || std::is_same_v<T, float>, "TF32 is a way to multiply floats");
  static constexpr bool on_tensor_cores = (is_half<T> || tf32) && gpu::has_tensor_cores;

 public:
  // What a warp makes is as nearly square as can be, because it loads as many factors as its sides have.
  static constexpr int warp_columns = columns == 256 ? 64 : 32;
  static constexpr int warps_across = columns / warp_columns;
  static constexpr int warp_rows = product_rows * warps_across / 8;

  __device__ explicit StepProduct(int thread) : lane_(thread % 32), warp_(thread / 32) {}

  __device__ int first_row() const { return warp_ / warps_across * warp_rows; }
  __device__ int first_column() const { return warp_ % warps_across * warp_columns; }

  // Adds the products of a step.
  __device__ void add(const StepTile<T, product_rows>& a, const StepTile<T, columns>& b) {
    if constexpr (on_tensor_cores) {
      add_by_tensor_cores(a.data, b.data);
    } else {
      add_plainly(a.data, b.data);
    }
  }

  // Calls f(row, column, sum) for the sums of this thread in eight columns of its warp's, row and column counted from
  // the first of these eight.
  template <class F>
  __device__ void for_eight_columns(int eight, const F& f) const {
    if constexpr (on_tensor_cores) {
#pragma unroll
      for (int i = 0; i < high; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          f(16 * i + lane_ / 4 + k / 2 * 8, lane_ % 4 * 2 + k % 2, sum_[(i * wide + eight) * 4 + k]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < plain_high; ++i) f(4 * i + lane_ / 8, lane_ % 8, sum_[i * wide + eight]);
    }
  }

 private:
  // On tensor cores a warp has high x wide sums of 16 x 8; otherwise a thread has every fourth row and every eighth
  // column of its warp's.
  static constexpr int high = warp_rows / 16, plain_high = warp_rows / 4, wide = warp_columns / 8;

  __device__ void add_by_tensor_cores(const T* a, const T* b) {
    // Matrices 0 to 3 of a: the first 8 rows and the next, then the same 16 bytes further; of b: the first 8 columns,
    // the same 16 bytes further, then the next 8 columns.
    const int inner = lane_ % 8, second = lane_ / 8 % 2, third = lane_ / 16;
    const uint32_t rows =
        gpu::shared_address(a) + (first_row() + inner + 8 * second) * step_bytes + (third ^ inner / 2) * 16;
    const uint32_t others =
        gpu::shared_address(b) + (first_column() + inner + 8 * third) * step_bytes + (second ^ inner / 2) * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Tiles begin at multiples of 128 bytes, so that the other two chunks of a line differ in one bit of the address.
      const uint32_t at = rows ^ 32 * half, other_at = others ^ 32 * half;
      uint32_t left[high][4];
#pragma unroll
      for (int i = 0; i < high; ++i) gpu::load_matrices<false>(left[i], at + 16 * i * step_bytes);
#pragma unroll
      for (int j = 0; j < wide; j += 2) {
        uint32_t right[4];
        gpu::load_matrices<false>(right, other_at + 8 * j * step_bytes);
#pragma unroll
        for (int i = 0; i < high; ++i) {
          gpu::multiply_add<T>(sum_ + (i * wide + j) * 4, left[i], right[0], right[1]);
          gpu::multiply_add<T>(sum_ + (i * wide + j + 1) * 4, left[i], right[2], right[3]);
        }
      }
    }
  }

  // Where sums take most registers, half a chunk of a line at once leaves some for the next factor, which is then on
  // its way meanwhile: 256 columns took 8 % less time so, while for 64 it was from 8 % less to 12 % more. Look at the
  // loads when this loop is touched: counting elements in place of parts, nvcc 13.0 loaded no factor early, and it took
  // 23 % more.
  __device__ void add_plainly(const T* a, const T* b) {
    constexpr int parts = columns == 256 ? 2 : 1, width = chunk_width<T> / parts;
    const int row = first_row() + lane_ / 8, column = first_column() + lane_ % 8;
#pragma unroll 1
    for (int part = 0; part < 4 * parts; ++part) {
      const int chunk = part / parts, first = part % parts * width;
      C other[wide][width];
#pragma unroll
      for (int j = 0; j < wide; ++j) load(b, column + 8 * j, chunk, first, other[j]);
#pragma unroll
      for (int i = 0; i < plain_high; ++i) {
        C factor[width];
        load(a, row + 4 * i, chunk, first, factor);
#pragma unroll
        for (int k = 0; k < width; ++k) {
#pragma unroll
          for (int j = 0; j < wide; ++j) sum_[i * wide + j] += factor[k] * other[j][k];
        }
      }
    }
  }

  template <int width>
  static __device__ void load(const T* tile, int line, int chunk, int first, C (&to)[width]) {
    const auto items = *reinterpret_cast<const Vector<T, width>*>(tile + StepTile<T, 8>::place(line, chunk) + first);
#pragma unroll
    for (int k = 0; k < width; ++k) to[k] = static_cast<C>(items.item[k]);
  }

  const int lane_, warp_;
  C sum_[warp_rows * warp_columns / 32] = {};
};

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
