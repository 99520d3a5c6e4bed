// Linear assignment on the CPU: a problem is one thread's.
#include "cpu.h"

using namespace opsmith;
using namespace opsmith::ops::linear_assignment;

template <class T>
void linear_assignment_ragged(View<const T, 3> cost, bool maximize, View<const int64_t, 1> row_lengths,
                              View<const int64_t, 1> column_lengths, View<int64_t, 2> column_of_row,
                              View<int64_t, 2> row_of_column) {
  const int64_t n = cost.size[1], m = cost.size[2];
  // A problem takes 10 us or more, but for the smallest.
  const int64_t grain = n * m < 256 ? 16 : 1;
  parallel_for(0, cost.size[0], grain, [&](int64_t begin, int64_t end) {
    Solver<compute_t<T>> solver;
    for (int64_t problem = begin; problem < end; ++problem) {
      const Sides sides = sides_of(cost, row_lengths, column_lengths, problem);
      solver.read(cost, problem, sides, maximize);
      solver.solve();
      for (int64_t i = 0; i < n; ++i) {
        column_of_row(problem, i) = i >= sides.n() ? -1 : sides.is_transposed ? solver.row_of(i) : solver.column_of(i);
      }
      for (int64_t j = 0; j < m; ++j) {
        row_of_column(problem, j) = j >= sides.m() ? -1 : sides.is_transposed ? solver.column_of(j) : solver.row_of(j);
      }
    }
  });
}
