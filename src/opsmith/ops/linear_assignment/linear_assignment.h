// What the kernels of linear_assignment share with each other and, step by step, with the definition.
//
// A problem is solved from its shorter side: `rows` and `columns` below are those of the matrix that is solved, which
// is the cost or its transpose. All sums are float64, and nothing is multiplied but by a power of two, so that no
// compiler can fuse anything: results, ties included, are the same everywhere.
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::linear_assignment {
namespace {

constexpr double infinity = __builtin_huge_val();

// The largest cost of a pair that may be made. 2^1000 in float64, where sums of larger ones overflow.
template <class C>
constexpr C largest_cost = sizeof(C) == 4 ? C(3.40282346638528859812e38) : C(0x1p1000);

// A cost to minimise; infinity for a pair that is forbidden.
template <class T>
OPSMITH_HOST_DEVICE compute_t<T> cost_of(T cost, bool maximize) {
  using C = compute_t<T>;
  const C value = static_cast<C>(cost);
  const bool is_allowed = value <= largest_cost<C> && value >= -largest_cost<C>;
  return is_allowed ? (maximize ? -value : value) : static_cast<C>(infinity);
}

// The matrix to solve, of one problem.
struct Sides {
  int64_t rows, columns;  // rows <= columns
  bool is_transposed;

  // The lines of the cost.
  OPSMITH_HOST_DEVICE int64_t n() const { return is_transposed ? columns : rows; }
  OPSMITH_HOST_DEVICE int64_t m() const { return is_transposed ? rows : columns; }
};

OPSMITH_HOST_DEVICE int64_t clamped(const View<const int64_t, 1>& lengths, int64_t problem, int64_t size) {
  if (!lengths) return size;
  const int64_t length = lengths(problem);
  return length < 0 ? 0 : length < size ? length : size;
}

template <class T>
OPSMITH_HOST_DEVICE Sides sides_of(const View<const T, 3>& cost, const View<const int64_t, 1>& row_lengths,
                                   const View<const int64_t, 1>& column_lengths, int64_t problem) {
  const int64_t n = clamped(row_lengths, problem, cost.size[1]), m = clamped(column_lengths, problem, cost.size[2]);
  return n <= m ? Sides{n, m, false} : Sides{m, n, true};
}

// The distance of a column by way of a row; `offset` is the row's distance less its dual.
OPSMITH_HOST_DEVICE double reduced_cost(double cost, double column_dual, double offset) {
  return (cost - column_dual) + offset;
}

// What it costs to leave a row without a column: more than sums along two paths can differ by.
OPSMITH_HOST_DEVICE double penalty_of(double largest, int64_t rows) {
  double factor = 4;
  while (factor < static_cast<double>(4 * (rows + 1))) factor *= 2;
  return largest > 0 ? largest * factor : 1.0;
}

}  // namespace
}  // namespace opsmith::ops::linear_assignment
