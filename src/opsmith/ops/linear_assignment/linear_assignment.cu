// Linear assignment on a GPU: the matrices are laid out, then a block solves each problem.
#include <opsmith/workspace.h>

#include "../_gpu/shared_memory.cuh"
#include "lay_out.cuh"
#include "solve.cuh"

using namespace opsmith;
using namespace opsmith::ops::linear_assignment;

namespace {

// Up to 1,024 columns 256 threads: the fewer warps, the shorter are the barriers.
int threads_for(int64_t columns) {
  const int64_t threads = 64 * divide_up(columns, 64 * columns_at_once);
  return static_cast<int>(threads < 256 ? 256 : threads < most_threads ? threads : most_threads);
}

template <class T>
void launch_solver(const View<const T, 3>& cost, const View<const int64_t, 1>& row_lengths,
                   const View<const int64_t, 1>& column_lengths, const compute_t<T>* matrices,
                   const View<int64_t, 2>& column_of_row, const View<int64_t, 2>& row_of_column, Stream stream) {
  constexpr int64_t most_states = 512;  // in a workspace; there are no more blocks then
  const int64_t n = cost.size[1], m = cost.size[2], longer = n < m ? m : n;
  const int64_t bytes = State::bytes(n < m ? n : m, longer);
  const int threads = threads_for(longer);
  if (bytes + static_cast<int64_t>(sizeof(Shared)) <= ops::gpu::most_shared_memory()) {
    ops::gpu::allow_shared_memory(solve_problems<T>, static_cast<int>(bytes));
    solve_problems<T><<<blocks_for(cost.size[0], 1), threads, static_cast<size_t>(bytes), stream>>>(
        cost, row_lengths, column_lengths, matrices, nullptr, bytes, column_of_row, row_of_column);
    return;
  }
  const int64_t blocks = cost.size[0] < most_states ? cost.size[0] : most_states;
  const Workspace<char> states(blocks * bytes);
  solve_problems<T><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
      cost, row_lengths, column_lengths, matrices, states.data, bytes, column_of_row, row_of_column);
}

}  // namespace

template <class T>
void linear_assignment_ragged(View<const T, 3> cost, bool maximize, View<const int64_t, 1> row_lengths,
                              View<const int64_t, 1> column_lengths, View<int64_t, 2> column_of_row,
                              View<int64_t, 2> row_of_column, Stream stream) {
  const int64_t problems = cost.size[0], n = cost.size[1], m = cost.size[2];
  constexpr int64_t most = int64_t{1} << 30;  // kernels count by 32 bits
  if (n >= most || m >= most) {
    fail("linear_assignment() on a GPU takes fewer than 2^30 rows and columns; found ", n, " and ", m);
  }
  if (column_of_row.numel() + row_of_column.numel() == 0) return;
  const Workspace<compute_t<T>> matrices(problems * n * m);
  if (n > 0 && m > 0) launch_layout(cost, maximize, row_lengths, column_lengths, matrices.data, stream);
  launch_solver(cost, row_lengths, column_lengths, matrices.data, column_of_row, row_of_column, stream);
  check_launch("linear_assignment_ragged");
}
