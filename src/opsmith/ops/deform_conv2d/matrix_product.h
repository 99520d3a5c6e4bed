// How a block of a GPU kernel multiplies two matrices of global memory: 128 x 256 sums, whose summands come in steps of
// 64 bytes of each line. Two steps are on their way into shared memory while a third is multiplied. 16-bit types go
// through the tensor cores, and so do floats that may be rounded to ten bits (TF32); else each thread makes 8 x 16
// sums.
//
// The tile is as large as registers allow, because the second-level cache gives each step to each block: with 128 x 128
// it, not the tensor cores, was the limit.
#pragma once

#include "gpu_points.h"

namespace {

constexpr int block_rows = 128;
template <class T>
constexpr int block_columns = sizeof(T) == 8 ? 128 : 256;
constexpr int run_length = 8;  // sums of a row that a thread has next to each other
#if defined(__HIPCC__)
constexpr int stages = 2;  // nothing is copied on its own there, and there are 64 KB of shared memory
#else
constexpr int stages = 3;
#endif

// A matrix in global memory. Its rows are `stride` apart; column n is at n / period * jump + n % period of its row.
template <class T>
struct Matrix {
  const T* data;
  int64_t stride;
  int rows, columns, period, jump;
  bool has_vectors;  // 16 bytes at a multiple of 16 bytes are of one period, and all within the matrix or none

  __device__ int64_t place(int column) const { return int64_t{column / period} * jump + column % period; }
};

// What a block multiplies of one matrix: `lines` rows, with the summands side by side, or columns where `steps_first`.
template <class T, int lines, bool steps_first>
class Panel {
 public:
  static constexpr int width = copy_bytes / sizeof(T), steps = step_bytes / sizeof(T);
  // A tile lies as its matrix does. Rows are longer by 16 bytes or eight elements, so that lanes read different banks.
  static constexpr int stride = !steps_first ? steps + width : lines + 8;
  static constexpr int size = (steps_first ? steps : lines) * stride;

  __device__ Panel(const Matrix<T>& matrix, int first, int begin) : matrix_(matrix), first_(first), step_(begin) {
    if constexpr (steps_first) {
      const int column = first + own_column();
      is_inside_ = column < matrix.columns;
      from_ = matrix.data + (begin + own_row()) * matrix.stride + (is_inside_ ? matrix.place(column) : 0);
    } else {
      from_ = matrix.data + (first + own_row()) * matrix.stride + begin + own_column();
    }
  }

  // Brings the next step.
  __device__ void bring(T* to) {
    T* const place = to + own_row() * stride + own_column();
    if (matrix_.has_vectors) {
      const int left = (steps_first ? matrix_.rows : matrix_.columns) - step_;
      const T* from = from_;
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const bool is_there = steps_first ? is_inside_ && own_row() + i * down < left
                                          : own_column() < left && first_ + own_row() + i * down < matrix_.rows;
        copy_async(place + i * down * stride, from, is_there);
        from += down * matrix_.stride;
      }
    } else {
      for (int i = 0; i < count; ++i) {
        *reinterpret_cast<Vector<T, width>*>(place + i * down * stride) =
            load(matrix_, own_row() + i * down + (steps_first ? step_ : first_),
                 own_column() + (steps_first ? first_ : step_));
      }
    }
    step_ += steps;
    from_ += steps * (steps_first ? matrix_.stride : 1);
  }

 private:
  // A thread brings 16 bytes of `count` rows of the tile, `down` apart from its first on.
  static constexpr int across = (steps_first ? lines : steps) / width, down = tile_threads / across;
  static constexpr int count = (steps_first ? steps : lines) / down;
  static_assert(count * down * across * width == lines * steps, "all threads bring as much");

  static __device__ int own_row() { return threadIdx.x / across; }
  static __device__ int own_column() { return threadIdx.x % across * width; }

  // One by one, where there are no vectors. Not inlined, lest it take registers from where there are.
  static __device__ __noinline__ Vector<T, width> load(Matrix<T> matrix, int row, int column) {
    Vector<T, width> to;
    for (int k = 0; k < width; ++k) {
      const bool is_there = row < matrix.rows && column + k < matrix.columns;
      to.item[k] = is_there ? matrix.data[row * matrix.stride + matrix.place(column + k)] : T(0.0f);
    }
    return to;
  }

  const Matrix<T>& matrix_;
  const int first_;
  int step_;
  const T* from_;
  bool is_inside_;
};

// The sums of a block. Both matrices have the summands side by side, or both have them one below the other.
template <class T, bool steps_first, bool tf32>
class BlockProduct {
  using C = compute_t<T>;
  static_assert(!tf32 || std::is_same_v<T, float>, "TF32 is a way to multiply floats");
  static constexpr bool on_tensor_cores = (is_half<T> || tf32) && has_tensor_cores;

 public:
  static constexpr int rows = block_rows, columns = block_columns<T>;
  using Left = Panel<T, rows, steps_first>;
  using Right = Panel<T, columns, steps_first>;

  static constexpr int steps = Left::steps;
  static constexpr int shared_bytes = stages * (Left::size + Right::size) * static_cast<int>(sizeof(T));

  // The line of b that becomes a column of the sums, so that eight columns of a thread are next to each other.
  static __device__ int line_of(int column) {
    const int inner = column % run_length;
    if constexpr (on_tensor_cores) {
      return column / 32 * 32 + inner / 2 * 8 + column % 32 / run_length * 2 + inner % 2;
    } else if constexpr (steps_first) {
      return column / 128 * 128 + inner / 4 * 64 + column % 128 / run_length * 4 + inner % 4;
    } else {
      return column / 128 * 128 + inner * 16 + column % 128 / run_length;
    }
  }

  // Adds the products of `count` steps.
  __device__ void add(Left a, Right b, int count, void* shared) {
    constexpr int size = Left::size + Right::size;
    T* const room = static_cast<T*>(shared);
    for (int k = 0; k < stages - 1; ++k) {
      if (k < count) {
        a.bring(room + k * size);
        b.bring(room + k * size + Left::size);
      }
      commit_copies();
    }
    int now = 0, next = stages - 1;
    for (int k = 0; k < count; ++k) {
      wait_for_copies<stages - 2>();
      __syncthreads();
      if (k + stages - 1 < count) {
        a.bring(room + next * size);
        b.bring(room + next * size + Left::size);
      }
      commit_copies();
      const T* const from = room + now * size;
      if constexpr (on_tensor_cores && steps_first && tf32) {
        multiply_floats(from, from + Left::size);
      } else if constexpr (on_tensor_cores) {
        multiply_matrices(from, from + Left::size);
      } else {
        multiply(from, from + Left::size);
      }
      now = now + 1 < stages ? now + 1 : 0;
      next = next + 1 < stages ? next + 1 : 0;
    }
  }

  // Calls f(row, find(column), eight sums from there on) for the sums of this thread.
  template <class Find, class F>
  __device__ void for_each(const Find& find, const F& f) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, y = threadIdx.x / 16, x = threadIdx.x % 16;
#pragma unroll
    for (int run = 0; run < wide / run_length; ++run) {
      const auto found = find(on_tensor_cores ? warp % 4 * (columns / 4) + run * 32 + lane % 4 * run_length
                                              : run * 128 + x * run_length);
#pragma unroll
      for (int n = 0; n < high; ++n) {
        C sums[run_length];
#pragma unroll
        for (int k = 0; k < run_length; ++k) {
          sums[k] = on_tensor_cores ? sum_[(n / 2 * (wide / 2) + run * 4 + k / 2) * 4 + n % 2 * 2 + k % 2]
                                    : sum_[n * wide + run * run_length + k];
        }
        const int row = on_tensor_cores ? warp / 4 * 64 + n / 2 * 16 + n % 2 * 8 + lane / 4
                        : steps_first   ? n / 4 * 64 + y * 4 + n % 4
                                        : y + 16 * n;
        f(row, found, sums);
      }
    }
  }

 private:
  static constexpr int high = 8, wide = columns / 16;  // the sums of a thread

  // Eight warps, two along the rows and four along the columns; each has 4 x 8 sums of 16 x 8. A matrix of the tensor
  // cores has 16 bytes of eight lines.
  __device__ void multiply_matrices(const T* a, const T* b) {
    constexpr int half = Left::width, across = wide / 2;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp / 4 * 64, first_column = warp % 4 * (columns / 4);
    const int inner = lane % 8, second = lane / 8 % 2, third = lane / 16;
#pragma unroll
    for (int step = 0; step < steps; step += 2 * half) {
      uint32_t left[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + 16 * i + 8 * second, at = step + half * third;
        load_matrices<steps_first>(left[i], shared_address(a + (steps_first ? (at + inner) * Left::stride + row
                                                                            : (row + inner) * Left::stride + at)));
        round(left[i]);
      }
#pragma unroll
      for (int j = 0; j < across; j += 2) {
        uint32_t right[4];
        const int column = first_column + 8 * j + 8 * third, at = step + half * second;
        load_matrices<steps_first>(right, shared_address(b + (steps_first ? (at + inner) * Right::stride + column
                                                                          : (column + inner) * Right::stride + at)));
        round(right);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          multiply_add<T>(sum_ + (i * across + j) * 4, left[i], right[0], right[1]);
          multiply_add<T>(sum_ + (i * across + j + 1) * 4, left[i], right[2], right[3]);
        }
      }
    }
  }

  static __device__ void round(uint32_t (&values)[4]) {
    if constexpr (tf32) {
#pragma unroll
      for (int k = 0; k < 4; ++k) values[k] = bit_cast<uint32_t>(round_to_tf32(bit_cast<float>(values[k])));
    }
  }

  // The same for floats whose summands lie one below the other, which no instruction turns.
  __device__ void multiply_floats(const float* a, const float* b) {
    constexpr int across = wide / 2;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* const rows = a + lane % 4 * Left::stride + warp / 4 * 64 + lane / 4;
    const float* const others = b + lane % 4 * Right::stride + warp % 4 * (columns / 4) + lane / 4;
#pragma unroll
    for (int step = 0; step < steps; step += 8) {
      uint32_t left[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          left[i][k] = bit_cast<uint32_t>(rows[(step + k / 2 * 4) * Left::stride + 16 * i + k % 2 * 8]);
        }
        round(left[i]);
      }
#pragma unroll
      for (int j = 0; j < across; j += 2) {
        uint32_t right[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          right[k] = bit_cast<uint32_t>(others[(step + k % 2 * 4) * Right::stride + 8 * (j + k / 2)]);
        }
        round(right);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          multiply_add<T>(sum_ + (i * across + j) * 4, left[i], right[0], right[1]);
          multiply_add<T>(sum_ + (i * across + j + 1) * 4, left[i], right[2], right[3]);
        }
      }
    }
  }

  // Threads stand 16 x 16. Each has every 16th row and column or, where these lie side by side, four of each 64.
  __device__ void multiply(const T* a, const T* b) {
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    constexpr int at_once = steps_first ? 4 : Left::width;
    using Few = Vector<T, at_once>;
    if constexpr (steps_first) {
#pragma unroll 2
      for (int step = 0; step < steps; ++step) {
        Few few[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) few[k] = *reinterpret_cast<const Few*>(a + step * Left::stride + k * 64 + y * 4);
#pragma unroll
        for (int four = 0; four < wide / 4; ++four) {
          const Few other = *reinterpret_cast<const Few*>(b + step * Right::stride + four * 64 + x * 4);
#pragma unroll
          for (int n = 0; n < high; ++n) {
#pragma unroll
            for (int k = 0; k < 4; ++k) sum_[n * wide + four * 4 + k] += C(few[n / 4].item[n % 4]) * C(other.item[k]);
          }
        }
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < steps; step += at_once) {
        Few few[high];
#pragma unroll
        for (int n = 0; n < high; ++n) few[n] = *reinterpret_cast<const Few*>(a + (y + 16 * n) * Left::stride + step);
#pragma unroll
        for (int j = 0; j < wide; ++j) {
          const Few other = *reinterpret_cast<const Few*>(b + (x + 16 * j) * Right::stride + step);
#pragma unroll
          for (int k = 0; k < at_once; ++k) {
#pragma unroll
            for (int n = 0; n < high; ++n) sum_[n * wide + j] += C(few[n].item[k]) * C(other.item[k]);
          }
        }
      }
    }
  }

  C sum_[high * wide] = {};
};

}  // namespace
