// How a block of a GPU kernel multiplies two tiles in shared memory. 16-bit types go through the tensor cores where
// NVIDIA's GPUs have instructions for them, and so do floats where the caller allows them to be rounded to ten bits
// (TF32); else floats and doubles are multiplied as such.
//
// A block has 256 threads and makes a tile of 64 rows and some columns. The factors come in steps of 32 summands. They
// lie in shared memory with the summands side by side ([row][step] and [column][step]) or, where the transposed of both
// is at hand, with the rows and columns side by side ([step][row] and [step][column]).
#pragma once

#include "tensor_cores.h"

namespace {

constexpr int tile_threads = 256;
constexpr int tile_rows = 64;
constexpr int tile_steps = 32;
constexpr int vector_width = 8;  // elements that a thread brings at once: 16 bytes of a 16-bit type

// A tile in shared memory, whose rows are longer by `pad`, lest they begin in the same bank. With `tf32`, floats are
// rounded to the ten bits of a tensor core's.
template <class T, int rows_, int columns_, int pad, bool tf32>
struct SharedTile {
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int stride = columns + pad;

  alignas(16) T data[rows * stride];

  // Fills the tile: load(row, column, values) gives the elements from (row, column) on.
  template <class Load>
  __device__ void fill(const Load& load) {
    constexpr int count = rows * columns / vector_width;
    static_assert(count % tile_threads == 0, "all threads bring as much");
#pragma unroll
    for (int i = 0; i < count / tile_threads; ++i) {
      const int v = i * tile_threads + threadIdx.x;
      const int row = v / (columns / vector_width), column = v % (columns / vector_width) * vector_width;
      Vector<T, vector_width> values;
      load(row, column, values.item);
      T* const to = data + row * stride + column;
      if constexpr (is_half<T>) {
        *reinterpret_cast<Vector<T, vector_width>*>(to) = values;
      } else {
#pragma unroll
        for (int k = 0; k < vector_width; ++k) {
          if constexpr (tf32) {
            to[k] = round_to_tf32(values.item[k]);
          } else {
            to[k] = values.item[k];
          }
        }
      }
    }
  }
};

// The sums of a block: 64 rows by `columns`, of which a thread has a share.
template <class T, int columns, bool steps_first, bool tf32>
class TileProduct {
  using C = compute_t<T>;
  static_assert(!tf32 || std::is_same_v<T, float>, "TF32 is a way to multiply floats");
  static constexpr bool on_tensor_cores = (is_half<T> || tf32) && has_tensor_cores;
  // With these the lanes of a warp read different banks: eight rows of 16 bytes, or eight by four floats.
  static constexpr int pad = is_half<T> ? 8 : !tf32 ? 1 : steps_first ? 8 : 4;
  // Eight warps, two along the rows and four along the columns; on tensor cores each has 2 x `across` sums of 16 x 8.
  static constexpr int across = columns / 32;
  // Otherwise threads stand 16 x 16, each with every 16th row and column.
  static constexpr int high = tile_rows / 16, wide = columns / 16;

 public:
  using Rows = SharedTile<T, steps_first ? tile_steps : tile_rows, steps_first ? tile_rows : tile_steps, pad, tf32>;
  using Columns = SharedTile<T, steps_first ? tile_steps : columns, steps_first ? columns : tile_steps, pad, tf32>;

  // Adds the products of 32 summands.
  __device__ void add(const Rows& a, const Columns& b) {
    if constexpr (on_tensor_cores && tf32) {
      add_as_tf32(a.data, b.data);
    } else if constexpr (on_tensor_cores) {
      add_by_tensor_cores(a.data, b.data);
    } else {
      const int y = threadIdx.x / 16, x = threadIdx.x % 16;
#pragma unroll 4
      for (int step = 0; step < tile_steps; ++step) {
        C factor[high];
#pragma unroll
        for (int i = 0; i < high; ++i) factor[i] = C(a.data[place<Rows>(y + 16 * i, step)]);
#pragma unroll
        for (int j = 0; j < wide; ++j) {
          const C other = C(b.data[place<Columns>(x + 16 * j, step)]);
#pragma unroll
          for (int i = 0; i < high; ++i) sum_[i * wide + j] += factor[i] * other;
        }
      }
    }
  }

  // Calls f(row, column, sum) for the sums of this thread.
  template <class F>
  __device__ void for_each(const F& f) const {
    if constexpr (on_tensor_cores) {
      const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
      for (int n = 0; n < 8 * across; ++n) {
        const int i = n / (4 * across), j = n / 4 % across, k = n % 4;
        f(warp / 4 * 32 + 16 * i + lane / 4 + k / 2 * 8, warp % 4 * (columns / 4) + 8 * j + lane % 4 * 2 + k % 2,
          sum_[n]);
      }
    } else {
      const int y = threadIdx.x / 16, x = threadIdx.x % 16;
#pragma unroll
      for (int n = 0; n < high * wide; ++n) f(y + 16 * (n / wide), x + 16 * (n % wide), sum_[n]);
    }
  }

 private:
  template <class Tile>
  static __device__ int place(int line, int step) {
    return steps_first ? step * Tile::stride + line : line * Tile::stride + step;
  }

  __device__ void add_by_tensor_cores(const T* a, const T* b) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp / 4 * 32, first_column = warp % 4 * (columns / 4);
    // Matrices 0 to 3 of a: rows 0 and 8, then the same of the next 8 steps; of b: steps 0 and 8, then the next 8
    // columns.
    const int inner = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < tile_steps; step += 16) {
      uint32_t left[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = first_row + 16 * i + second, at = step + third;
        load_matrices<steps_first>(left[i], shared_address(a + (steps_first ? (at + inner) * Rows::stride + row
                                                                            : (row + inner) * Rows::stride + at)));
      }
#pragma unroll
      for (int j = 0; j < across; j += 2) {
        uint32_t right[4];
        const int column = first_column + 8 * j + third, at = step + second;
        load_matrices<steps_first>(right, shared_address(b + (steps_first ? (at + inner) * Columns::stride + column
                                                                          : (column + inner) * Columns::stride + at)));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply_add<T>(sum_ + (i * across + j) * 4, left[i], right[0], right[1]);
          multiply_add<T>(sum_ + (i * across + j + 1) * 4, left[i], right[2], right[3]);
        }
      }
    }
  }

  __device__ void add_as_tf32(const T* a, const T* b) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp / 4 * 32 + lane / 4, first_column = warp % 4 * (columns / 4) + lane / 4;
#pragma unroll
    for (int k = 0; k < tile_steps; k += 8) {
      const int step = k + lane % 4;
      uint32_t left[2][4];
#pragma unroll
      for (int n = 0; n < 8; ++n)
        left[n / 4][n % 4] =
            bit_cast<uint32_t>(a[place<Rows>(first_row + n / 4 * 16 + n % 2 * 8, step + n % 4 / 2 * 4)]);
#pragma unroll
      for (int j = 0; j < across; ++j) {
        const uint32_t b0 = bit_cast<uint32_t>(b[place<Columns>(first_column + 8 * j, step)]);
        const uint32_t b1 = bit_cast<uint32_t>(b[place<Columns>(first_column + 8 * j, step + 4)]);
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply_add<T>(sum_ + (i * across + j) * 4, left[i], b0, b1);
      }
    }
  }

  C sum_[tile_rows * columns / tile_threads] = {};
};

}  // namespace
