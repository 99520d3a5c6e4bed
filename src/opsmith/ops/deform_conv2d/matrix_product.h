// How a block of a GPU kernel multiplies two matrices of global memory: 128 x 128 sums, whose summands come in steps of
// 64 bytes of each line. Three steps are on their way into shared memory while a fourth is multiplied. 16-bit types go
// through the tensor cores, and so do floats that may be rounded to ten bits (TF32); else each thread makes 8 x 8 sums.
#pragma once

#include "gpu_samples.h"

namespace {

constexpr int block_lines = 128;  // of each matrix
constexpr int run_length = 8;     // sums of a row that a thread has next to each other
#if defined(__HIPCC__)
constexpr int stages = 2;  // nothing is copied on its own there, and there are 64 KB of shared memory
#else
constexpr int stages = 4;
#endif

// A matrix in global memory. Its rows are `stride` apart; column n is at n / period * jump + n % period of its row.
template <class T>
struct Matrix {
  const T* data;
  int64_t rows, columns, stride, period, jump;
  bool has_vectors;  // 16 bytes at a multiple of 16 bytes are of one period, and all within the matrix or none

  __device__ int64_t place(int64_t column) const { return column / period * jump + column % period; }
};

// What a block multiplies of one matrix: 128 rows, with the summands side by side, or 128 columns where `steps_first`.
template <class T, bool steps_first>
class Panel {
 public:
  static constexpr int width = copy_bytes / sizeof(T), steps = step_bytes / sizeof(T);
  static constexpr int rows = steps_first ? steps : block_lines, columns = steps_first ? block_lines : steps;
  static constexpr int across = columns / width, down = tile_threads / across, count = rows / down;

  __device__ Panel(const Matrix<T>& matrix, int64_t first) : matrix_(matrix), first_(first) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      is_there_[i] = steps_first ? first + own_column() < matrix.columns : first + own_row() + i * down < matrix.rows;
    }
  }

  // Goes to the first of the summands, and to the next.
  __device__ void begin(int64_t step) {
    step_ = step;
    if constexpr (steps_first) {
      from_ = matrix_.data + (step + own_row()) * matrix_.stride +
              (is_there_[0] ? matrix_.place(first_ + own_column()) : 0);
      left_ = static_cast<int>(matrix_.rows - step) - own_row();
    } else {
      from_ = matrix_.data + (first_ + own_row()) * matrix_.stride + step + own_column();
      left_ = static_cast<int>(matrix_.columns - step) - own_column();
    }
  }

  __device__ void advance() {
    step_ += steps;
    from_ += steps * (steps_first ? matrix_.stride : 1);
    left_ -= steps;
  }

  // A thread brings 16 bytes of `count` rows of the tile, `down` apart from its first on.
  static __device__ int own_row() { return threadIdx.x / across; }
  static __device__ int own_column() { return threadIdx.x % across * width; }

  // Where the 16 bytes of a thread's i-th row are, and whether they are in the matrix.
  __device__ const T* at(int i) const { return from_ + i * down * matrix_.stride; }
  __device__ bool has(int i) const { return is_there_[i] && (steps_first ? i * down : 0) < left_; }

  // They one by one, where there are no vectors. Not inlined, lest it take registers from where there are.
  __device__ Vector<T, width> load(int i) const {
    return load_row(matrix_, own_row() + i * down + (steps_first ? step_ : first_),
                    own_column() + (steps_first ? first_ : step_));
  }

  __device__ bool has_vectors() const { return matrix_.has_vectors; }

 private:
  static __device__ __noinline__ Vector<T, width> load_row(Matrix<T> matrix, int64_t row, int64_t column) {
    Vector<T, width> to;
    for (int k = 0; k < width; ++k) {
      const bool is_there = row < matrix.rows && column + k < matrix.columns;
      to.item[k] = is_there ? matrix.data[row * matrix.stride + matrix.place(column + k)] : T(0.0f);
    }
    return to;
  }

  const Matrix<T>& matrix_;
  int64_t first_, step_;
  const T* from_;
  int left_;
  bool is_there_[count];
};

// The sums of a block. Both matrices have the summands side by side, or both have them one below the other.
template <class T, bool steps_first, bool tf32>
class BlockProduct {
  using C = compute_t<T>;
  static_assert(!tf32 || std::is_same_v<T, float>, "TF32 is a way to multiply floats");
  static constexpr bool on_tensor_cores = (is_half<T> || tf32) && has_tensor_cores;
  static constexpr int steps = step_bytes / sizeof(T), width = copy_bytes / sizeof(T);
  // A tile lies as its matrix does. Rows are longer by 16 bytes or eight elements, so that lanes read different banks.
  static constexpr int stride = !steps_first ? steps + width : block_lines + 8;
  static constexpr int size = (steps_first ? steps : block_lines) * stride;

 public:
  using Side = Panel<T, steps_first>;

  static constexpr int shared_bytes = 2 * stages * size * static_cast<int>(sizeof(T));

  // The line of b that becomes a column of the sums, so that eight columns of a thread are next to each other.
  static __device__ int line_of(int column) {
    const int inner = column % run_length;
    if constexpr (on_tensor_cores) {
      return column / 32 * 32 + inner / 2 * 8 + column % 32 / run_length * 2 + inner % 2;
    } else if constexpr (steps_first) {
      return inner / 4 * (block_lines / 2) + column / run_length * 4 + inner % 4;
    } else {
      return inner * 16 + column / run_length;
    }
  }

  // Adds the products of the summands from `begin` to `end`.
  __device__ void add(Side a, Side b, int64_t begin, int64_t end, void* shared) {
    T* const room = static_cast<T*>(shared);
    const int count = static_cast<int>((end - begin + steps - 1) / steps);
    a.begin(begin);
    b.begin(begin);
    for (int k = 0; k < stages - 1; ++k) {
      if (k < count) bring(a, b, room + k * 2 * size);
      commit_copies();
    }
    for (int k = 0; k < count; ++k) {
      wait_for_copies<stages - 2>();
      __syncthreads();
      if (k + stages - 1 < count) bring(a, b, room + (k + stages - 1) % stages * 2 * size);
      commit_copies();
      const T* const from = room + k % stages * 2 * size;
      if constexpr (on_tensor_cores && tf32) {
        multiply_as_tf32(from, from + size);
      } else if constexpr (on_tensor_cores) {
        multiply_by_tensor_cores(from, from + size);
      } else {
        multiply(from, from + size);
      }
    }
  }

  // Calls f(row, column, eight sums from there on) for the sums of this thread.
  template <class F>
  __device__ void for_each(const F& f) const {
#pragma unroll
    for (int n = 0; n < block_lines * block_lines / tile_threads / run_length; ++n) {
      C run[run_length];
      if constexpr (on_tensor_cores) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int k = 0; k < run_length; ++k) run[k] = sum_[(n / 2 * 4 + k / 2) * 4 + n % 2 * 2 + k % 2];
        f(warp / 4 * 64 + n / 2 * 16 + n % 2 * 8 + lane / 4, warp % 4 * 32 + lane % 4 * run_length, run);
      } else {
#pragma unroll
        for (int k = 0; k < run_length; ++k) run[k] = sum_[n * run_length + k];
        const int y = threadIdx.x / 16, x = threadIdx.x % 16;
        f(steps_first ? n / 4 * (block_lines / 2) + y * 4 + n % 4 : y + 16 * n, x * run_length, run);
      }
    }
  }

 private:
  static __device__ void bring(Side& a, Side& b, T* to) {
    bring(a, to);
    bring(b, to + size);
  }

  static __device__ void bring(Side& side, T* to) {
    T* const place = to + Side::own_row() * stride + Side::own_column();
    if (side.has_vectors()) {
#pragma unroll
      for (int i = 0; i < Side::count; ++i) copy_async(place + i * Side::down * stride, side.at(i), side.has(i));
    } else {
      for (int i = 0; i < Side::count; ++i) {
        *reinterpret_cast<Vector<T, width>*>(place + i * Side::down * stride) = side.load(i);
      }
    }
    side.advance();
  }

  // Eight warps, two along the rows and four along the columns; each has 4 x 4 sums of 16 x 8.
  __device__ void multiply_by_tensor_cores(const T* a, const T* b) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp / 4 * 64, first_column = warp % 4 * 32;
    const int inner = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < steps; step += 16) {
      uint32_t left[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + 16 * i + second, at = step + third;
        load_matrices<steps_first>(
            left[i], shared_address(a + (steps_first ? (at + inner) * stride + row : (row + inner) * stride + at)));
      }
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        uint32_t right[4];
        const int column = first_column + 8 * j + third, at = step + second;
        load_matrices<steps_first>(
            right, shared_address(b + (steps_first ? (at + inner) * stride + column : (column + inner) * stride + at)));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          multiply_add<T>(sum_ + (i * 4 + j) * 4, left[i], right[0], right[1]);
          multiply_add<T>(sum_ + (i * 4 + j + 1) * 4, left[i], right[2], right[3]);
        }
      }
    }
  }

  __device__ void multiply_as_tf32(const float* a, const float* b) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp / 4 * 64 + lane / 4, first_column = warp % 4 * 32 + lane / 4;
#pragma unroll
    for (int k = 0; k < steps; k += 8) {
      const int step = k + lane % 4;
      uint32_t left[4][4];
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        left[n / 4][n % 4] = rounded_at(a, first_row + n / 4 * 16 + n % 2 * 8, step + n % 4 / 2 * 4);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t b0 = rounded_at(b, first_column + 8 * j, step),
                       b1 = rounded_at(b, first_column + 8 * j, step + 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) multiply_add<T>(sum_ + (i * 4 + j) * 4, left[i], b0, b1);
      }
    }
  }

  static __device__ uint32_t rounded_at(const float* tile, int line, int step) {
    return bit_cast<uint32_t>(round_to_tf32(tile[steps_first ? step * stride + line : line * stride + step]));
  }

  // Threads stand 16 x 16. Each has every 16th row and column or, where these lie side by side, two times four.
  __device__ void multiply(const T* a, const T* b) {
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    constexpr int at_once = steps_first ? 4 : width;
    using Few = Vector<T, at_once>;
    if constexpr (steps_first) {
#pragma unroll 4
      for (int step = 0; step < steps; ++step) {
        Few rows[2], columns[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          rows[k] = *reinterpret_cast<const Few*>(a + step * stride + k * (block_lines / 2) + y * 4);
          columns[k] = *reinterpret_cast<const Few*>(b + step * stride + k * (block_lines / 2) + x * 4);
        }
#pragma unroll
        for (int n = 0; n < 64; ++n) {
          sum_[n] += C(rows[n / 32].item[n / 8 % 4]) * C(columns[n % 8 / 4].item[n % 4]);
        }
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < steps; step += at_once) {
        Few rows[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) rows[i] = *reinterpret_cast<const Few*>(a + (y + 16 * i) * stride + step);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const Few column = *reinterpret_cast<const Few*>(b + (x + 16 * j) * stride + step);
#pragma unroll
          for (int k = 0; k < at_once; ++k) {
#pragma unroll
            for (int i = 0; i < 8; ++i) sum_[i * 8 + j] += C(rows[i].item[k]) * C(column.item[k]);
          }
        }
      }
    }
  }

  C sum_[block_lines * block_lines / tile_threads] = {};
};

}  // namespace
