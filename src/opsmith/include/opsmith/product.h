// Products of small matrices on the CPU: tiles of the result that stay in the vector registers.
//
// PyTorch's products are made for large matrices. At the sizes of a recurrent cell they reach a quarter of what one
// core can do, and a third of that again goes into the calls. The loops here are plain ones; with sizes known at
// compile time g++ and clang, helped by the pragmas, keep `sum` in registers.
#pragma once

#include <cstdint>
#include <new>

#include "cpu.h"
#include "divide.h"
#include "host_device.h"

namespace opsmith {

// Uninitialised memory for a kernel's own use, aligned to a cache line, which a vector of AVX-512 fills.
template <class C>
class Scratch {
 public:
  explicit Scratch(int64_t count) : data(static_cast<C*>(::operator new(count * sizeof(C), alignment))) {}
  Scratch(const Scratch&) = delete;
  ~Scratch() { ::operator delete(data, alignment); }

  C* const data;

 private:
  static constexpr std::align_val_t alignment{64};
};

// The columns of a right-hand matrix are stored in panels this wide, two vectors of AVX-512, padded at the end.
template <class C>
constexpr int64_t panel = 128 / sizeof(C);

// Rows of a result that one task computes: a multiple of every tile's height below.
constexpr int64_t row_group = 48;

// What to pass to parallel_for: tasks for about 5 us of work at the 200 GFLOP/s that a core does. Half of what cpu.h
// advises: PyTorch's threads are awake in the middle of a step, and two of them then gain 5 us in the forward of a
// recurrent cell of 16 rows and 128 units.
constexpr int64_t tasks_per_chunk(int64_t multiply_adds_per_task) {
  return 1 + (int64_t{1} << 19) / (multiply_adds_per_task > 0 ? multiply_adds_per_task : 1);
}

// out[r][c] = sum over p of a[r * a_row + p * a_step] * b[p * b_step + c], for r < rows <= Rows and c < columns <=
// Columns. b is read up to Columns. Sums go over p in order, whatever the tile, so that results do not depend on
// tiling.
template <int Rows, int Columns, class C>
OPSMITH_HOST_DEVICE void multiply_tile(int64_t rows, int64_t columns, int64_t steps, const C* a, int64_t a_row,
                                       int64_t a_step, const C* b, int64_t b_step, C* out, int64_t out_row) {
  // A missing row repeats the last one, and its sum is dropped. That costs less than a tile for each number of rows.
  const C* row[Rows];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) row[r] = a + (r < rows ? r : rows - 1) * a_row;
  C sum[Rows][Columns] = {};
  for (int64_t p = 0; p < steps; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const C factor = row[r][p * a_step];
// g++ would unroll short loops before it looks for vectors, and then find none; clang finds them in what is unrolled.
#ifdef __clang__
#pragma GCC unroll 64
#else
#pragma GCC unroll 1
#endif
      for (int c = 0; c < Columns; ++c) sum[r][c] += factor * b[p * b_step + c];
    }
  }
  if (columns == Columns) {
    for (int r = 0; r < Rows && r < rows; ++r) {
      for (int c = 0; c < Columns; ++c) out[r * out_row + c] = sum[r][c];
    }
  } else {
    for (int r = 0; r < Rows && r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) out[r * out_row + c] = sum[r][c];
    }
  }
}

// The same for any number of rows, and of columns up to a panel: b's rows are readable up to a panel's end.
struct MultiplyPanel {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, int64_t rows, int64_t columns, int64_t steps, const C* a,
                                      int64_t a_row, int64_t a_step, const C* b, int64_t b_step, C* out,
                                      int64_t out_row) const {
    // 16 sums at a time on AVX-512, which has 32 registers, and 12 on AVX2, which has 16: enough to hide the 4 cycles
    // that a multiply-add takes.
    constexpr int tile_rows = bytes == 64 ? 8 : bytes == 32 ? 6 : 4;
    constexpr int vector = bytes / sizeof(C);
    for (int64_t c = 0; c < columns; c += 2 * vector) {
      const int64_t width = columns - c < 2 * vector ? columns - c : 2 * vector;
      for (int64_t r = 0; r < rows; r += tile_rows) {
        const int64_t height = rows - r < tile_rows ? rows - r : tile_rows;
        if (width > vector) {
          multiply_tile<tile_rows, 2 * vector>(height, width, steps, a + r * a_row, a_row, a_step, b + c, b_step,
                                               out + r * out_row + c, out_row);
        } else {
          multiply_tile<tile_rows, vector>(height, width, steps, a + r * a_row, a_row, a_step, b + c, b_step,
                                           out + r * out_row + c, out_row);
        }
      }
    }
  }
};

// One copy for each element type, however many products a kernel has.
template <class C>
__attribute__((noinline)) void multiply_panel(int64_t rows, int64_t columns, int64_t steps, const C* a, int64_t a_row,
                                              int64_t a_step, const C* b, int64_t b_step, C* out, int64_t out_row) {
  with_vector_bytes(MultiplyPanel{}, rows, columns, steps, a, a_row, a_step, b, b_step, out, out_row);
}

}  // namespace opsmith
