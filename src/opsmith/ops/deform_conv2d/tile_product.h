// How a block of a GPU kernel multiplies two tiles in shared memory. 16-bit types go through the tensor cores where
// NVIDIA's GPUs have instructions for them, and so do floats where the caller allows them to be rounded to ten bits
// (TF32); else floats and doubles are multiplied as such.
//
// A block has 256 threads and makes a tile of 64 rows and some columns. The factors come in steps of 32 summands. They
// lie in shared memory with the summands side by side ([row][step] and [column][step]) or, where the transposed of both
// is at hand, with the rows and columns side by side ([step][row] and [step][column]).
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

namespace {

using namespace opsmith;

constexpr int tile_threads = 256;
constexpr int tile_rows = 64;
constexpr int tile_steps = 32;
constexpr int vector_width = 8;  // elements that a thread brings at once: 16 bytes of a 16-bit type

template <class T>
constexpr bool is_half = sizeof(T) == 2;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
constexpr bool has_tensor_cores = true;

__device__ inline uint32_t shared_address(const void* address) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(address));
}

// Four matrices of 8 x 8 16-bit elements. Lane l gives the place of row l % 8 of matrix l / 8, and gets of each matrix
// the elements 2 * (l % 4) and the next of row l / 4; of its transposed where `transposed`.
template <bool transposed>
__device__ inline void load_matrices(uint32_t (&to)[4], const void* from) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
  }
}

// sum += a b for a of 16 x 16 and b of 16 x 8. Lane l has of the sum the rows l / 4 and 8 more, and the columns
// 2 * (l % 4) and the next.
template <class T>
__device__ inline void multiply_add(float* sum, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// The same for floats of ten bits, a of 16 x 8 and b of 8 x 8. Lane l has of a the rows l / 4 and 8 more, first in the
// column l % 4 and then 4 further, and of b the rows l % 4 and 4 more of the column l / 4.
__device__ inline void multiply_add_tf32(float* sum, const float (&a)[4], float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

__device__ inline float round_to_tf32(float value) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
}
#else
constexpr bool has_tensor_cores = false;

template <bool transposed>
__device__ inline void load_matrices(uint32_t (&)[4], const void*) {}
template <class T>
__device__ inline void multiply_add(float*, const uint32_t (&)[4], uint32_t, uint32_t) {}
__device__ inline void multiply_add_tf32(float*, const float (&)[4], float, float) {}
__device__ inline float round_to_tf32(float value) { return value; }
#endif

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
        load_matrices<steps_first>(
            left[i], a + (steps_first ? (at + inner) * Rows::stride + row : (row + inner) * Rows::stride + at));
      }
#pragma unroll
      for (int j = 0; j < across; j += 2) {
        uint32_t right[4];
        const int column = first_column + 8 * j + third, at = step + second;
        load_matrices<steps_first>(right, b + (steps_first ? (at + inner) * Columns::stride + column
                                                           : (column + inner) * Columns::stride + at));
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
      float left[2][4];
#pragma unroll
      for (int n = 0; n < 8; ++n)
        left[n / 4][n % 4] = a[place<Rows>(first_row + n / 4 * 16 + n % 2 * 8, step + n % 4 / 2 * 4)];
#pragma unroll
      for (int j = 0; j < across; ++j) {
        const float b0 = b[place<Columns>(first_column + 8 * j, step)];
        const float b1 = b[place<Columns>(first_column + 8 * j, step + 4)];
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply_add_tf32(sum_ + (i * across + j) * 4, left[i], b0, b1);
      }
    }
  }

  C sum_[tile_rows * columns / tile_threads] = {};
};

}  // namespace
