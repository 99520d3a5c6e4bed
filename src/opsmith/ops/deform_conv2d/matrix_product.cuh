// How a block of a GPU kernel multiplies two matrices of global memory: 128 x 256 sums, whose summands come in steps of
// 64 bytes of each line. Two steps are on their way into shared memory while a third is multiplied, and half a step is
// on its way into registers while the tensor cores have the other half. 16-bit types go through these, and so do floats
// that may be rounded to ten bits (TF32); else each thread makes 8 x 16 sums.
//
// The tile is as large as registers allow, because each block gets its steps from the second-level cache: the product
// with bfloat16 samples took a quarter longer by tiles of 128 x 128.
#pragma once

#include "../_gpu/async_copy.cuh"
#include "gpu_points.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

constexpr int block_rows = 128;
template <class T>
constexpr int block_columns = sizeof(T) == 8 ? 128 : 256;
template <class T>
constexpr int run_length = chunk_width<T>;  // sums of a row that a thread has next to each other: 16 bytes of them
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
  // A tile lies as its matrix does. Of steps below each other rows are longer by eight elements, and within lines
  // chunks of 16 bytes are exchanged, so that lanes read and write different banks.
  static constexpr int stride = steps_first ? lines + 8 : steps;
  static constexpr int size = (steps_first ? steps : lines) * stride;

  // Where a chunk of a line is.
  static __device__ int place_of(int line, int chunk) { return line * stride + (chunk ^ line / 2 % 4) * width; }

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
    // Rows are a multiple of eight apart where chunks are exchanged.
    T* const place = to + (steps_first ? own_row() * stride + own_column() : place_of(own_row(), own_column() / width));
    if (matrix_.has_vectors) {
      const int left = (steps_first ? matrix_.rows : matrix_.columns) - step_;
      const T* from = from_;
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const bool is_there = steps_first ? is_inside_ && own_row() + i * down < left
                                          : own_column() < left && first_ + own_row() + i * down < matrix_.rows;
        gpu::copy_async(place + i * down * stride, from, is_there);
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
  static constexpr bool on_tensor_cores = (is_half<T> || tf32) && gpu::has_tensor_cores;

 public:
  static constexpr int rows = block_rows, columns = block_columns<T>;
  using Left = Panel<T, rows, steps_first>;
  using Right = Panel<T, columns, steps_first>;

  static constexpr int steps = Left::steps;
  static constexpr int shared_bytes = stages * (Left::size + Right::size) * static_cast<int>(sizeof(T));

  // The line of b that becomes a column of the sums, so that columns of a thread are next to each other.
  static __device__ int line_of(int column) {
    if constexpr (on_tensor_cores) {
      const int inner = column % warp_columns, k = inner % run, tile = inner / (4 * run) * (run / 2) + k / 2;
      return column - inner + tile * 8 + inner % (4 * run) / run * 2 + k % 2;
    }
    const int own = column / (16 * run) * run + column % run, x = column % (16 * run) / run;
    return steps_first ? own / 4 * 64 + x * 4 + own % 4 : own * 16 + x;
  }

  // Adds the products of `count` steps. With `tf32` those of b have been rounded.
  __device__ void add(Left a, Right b, int count, void* shared) {
    constexpr int size = Left::size + Right::size;
    T* const room = static_cast<T*>(shared);
    for (int k = 0; k < stages; ++k) {
      if (k < count) {
        a.bring(room + k * size);
        b.bring(room + k * size + Left::size);
      }
      gpu::commit_copies();
    }
    gpu::wait_for_copy_groups<stages - 1>();
    __syncthreads();
    Factors first, second;
    if constexpr (on_tensor_cores) load(room, 0, first);
    T* now = room;
    for (int k = 0; k < count; ++k) {
      if constexpr (on_tensor_cores) {
        load(now, 1, second);
        multiply(first);
      } else {
        multiply_plainly(now, now + Left::size);
      }
      // All have read this step when the next one is there.
      gpu::wait_for_copy_groups<stages - 2>();
      __syncthreads();
      if (k + stages < count) {
        a.bring(now);
        b.bring(now + Left::size);
      }
      gpu::commit_copies();
      now = now == room + (stages - 1) * size ? room : now + size;
      if constexpr (on_tensor_cores) {
        load(now, 0, first);
        multiply(second);
      }
    }
  }

  // Calls f(row, find(column), sums from there on) for the sums of this thread, 16 bytes of T at a time.
  template <class Find, class F>
  __device__ void for_each(const Find& find, const F& f) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, y = threadIdx.x / 16, x = threadIdx.x % 16;
#pragma unroll
    for (int first = 0; first < wide; first += run) {
      const auto found =
          find(on_tensor_cores ? warp % 4 * warp_columns + first * 4 + lane % 4 * run : first * 16 + x * run);
#pragma unroll
      for (int n = 0; n < high; ++n) {
        C sums[run];
#pragma unroll
        for (int k = 0; k < run; ++k) {
          sums[k] = on_tensor_cores ? sum_[(n / 2 * across + (first + k) / 2) * 4 + n % 2 * 2 + k % 2]
                                    : sum_[n * wide + first + k];
        }
        const int row = on_tensor_cores ? warp / 4 * 64 + n / 2 * 16 + n % 2 * 8 + lane / 4
                        : steps_first   ? n / 4 * 64 + y * 4 + n % 4
                                        : y + 16 * n;
        f(row, found, sums);
      }
    }
  }

 private:
  static constexpr int run = run_length<T>;
  static constexpr int high = 8, wide = columns / 16;  // the sums of a thread
  // Eight warps, two along the rows and four along the columns; on tensor cores each has 4 x `across` sums of 16 x 8.
  static constexpr int warp_columns = columns / 4, across = wide / 2;

  // What a lane has of half a step of its warp's lines: matrices of 16 bytes of eight lines.
  struct Factors {
    uint32_t left[4][4], right[across / 2][4];
  };

  __device__ void load(const T* tiles, int half, Factors& to) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const T* const a = tiles + warp / 4 * 64 * (steps_first ? 1 : Left::stride);
    const T* const b = tiles + Left::size + warp % 4 * warp_columns * (steps_first ? 1 : Right::stride);
    const int step = half * steps / 2;
    if constexpr (steps_first && tf32) {
      // No instruction turns floats.
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int place = step + lane % 4 + n % 4 / 2 * 4;
        to.left[n / 4][n % 4] = bit_cast<uint32_t>(a[place * Left::stride + n / 4 * 16 + n % 2 * 8 + lane / 4]);
      }
#pragma unroll
      for (int n = 0; n < 2 * across; ++n) {
        const int place = step + lane % 4 + n % 2 * 4;
        to.right[n / 4][n % 4] = bit_cast<uint32_t>(b[place * Right::stride + n / 2 * 8 + lane / 4]);
      }
    } else {
      // Of a the first eight rows and the next, then the same 16 bytes further; of b the same 16 bytes further first.
      const int inner = lane % 8, second = lane / 8 % 2, third = lane / 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * i + 8 * second, at = step + Left::width * third;
        gpu::load_matrices<steps_first>(
            to.left[i], gpu::shared_address(a + (steps_first ? (at + inner) * Left::stride + row
                                                             : Left::place_of(row + inner, 2 * half + third))));
      }
#pragma unroll
      for (int j = 0; j < across / 2; ++j) {
        const int column = 16 * j + 8 * third, at = step + Left::width * second;
        gpu::load_matrices<steps_first>(
            to.right[j], gpu::shared_address(b + (steps_first ? (at + inner) * Right::stride + column
                                                              : Right::place_of(column + inner, 2 * half + second))));
      }
    }
  }

  __device__ void multiply(Factors& factors) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (tf32) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          factors.left[i][k] = bit_cast<uint32_t>(gpu::round_to_tf32(bit_cast<float>(factors.left[i][k])));
        }
      }
#pragma unroll
      for (int j = 0; j < across; ++j) {
        gpu::multiply_add<T>(sum_ + (i * across + j) * 4, factors.left[i], factors.right[j / 2][j % 2 * 2],
                             factors.right[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

  // Threads stand 16 x 16. Each has every 16th row and column or, where these lie side by side, four of each 64.
  __device__ void multiply_plainly(const T* a, const T* b) {
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
        for (int n = 0; n < high; ++n)
          few[n] = *reinterpret_cast<const Few*>(a + Left::place_of(y + 16 * n, step / at_once));
#pragma unroll
        for (int j = 0; j < wide; ++j) {
          const Few other = *reinterpret_cast<const Few*>(b + Right::place_of(x + 16 * j, step / at_once));
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
}  // namespace opsmith::ops::deform_conv2d
