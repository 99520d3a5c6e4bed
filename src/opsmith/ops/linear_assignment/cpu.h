// One problem of linear_assignment, solved by one thread of a CPU.
//
// A step of a search goes through all columns, in vectors. Columns that are done are not told apart there: a dual of
// -infinity makes them infinitely far, as are those that fill up the last vector.
#pragma once

#include <opsmith/block.h>

#include <algorithm>
#include <vector>

#include "../_cpu/registers.h"
#include "linear_assignment.h"

namespace opsmith::ops::linear_assignment {
namespace {

// Brings all columns up to date with a row that has been reached, and finds the least distance.
struct ReachColumns {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const C* __restrict__ cost,
                                      const double* __restrict__ column_dual, double offset, int64_t row,
                                      int64_t columns, double* __restrict__ distance, int64_t* __restrict__ previous,
                                      double* least) const {
    using Doubles = typename cpu::Register<bytes, double>::Lanes;
    using Rows = typename cpu::Register<bytes, int64_t>::Lanes;
    using Costs = typename cpu::Register<bytes / sizeof(double) * sizeof(C), C>::Lanes;
    constexpr int lanes = bytes / sizeof(double);
    Doubles lowest = Doubles{} + infinity;
    for (int64_t j = 0; j < columns; j += lanes) {
      const Doubles own = __builtin_convertvector(*reinterpret_cast<const Costs*>(cost + j), Doubles);
      const Doubles reduced = (own - *reinterpret_cast<const Doubles*>(column_dual + j)) + offset;
      Doubles& so_far = *reinterpret_cast<Doubles*>(distance + j);
      Rows& from = *reinterpret_cast<Rows*>(previous + j);
      const auto is_closer = reduced < so_far;
      const Doubles now = is_closer ? reduced : so_far;
      so_far = now;
      from = is_closer ? Rows{} + row : from;
      lowest = now < lowest ? now : lowest;
    }
    *least = infinity;
    for (int k = 0; k < lanes; ++k) *least = std::min(*least, lowest[k]);
  }
};

struct LowestCost {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const C* cost, int64_t columns, C* lowest) const {
    using Costs = typename cpu::Register<bytes, C>::Lanes;
    constexpr int lanes = bytes / sizeof(C);
    Costs least = Costs{} + static_cast<C>(infinity);
    for (int64_t j = 0; j < columns; j += lanes) {
      const Costs own = *reinterpret_cast<const Costs*>(cost + j);
      least = own < least ? own : least;
    }
    *lowest = least[0];
    for (int k = 1; k < lanes; ++k) *lowest = std::min(*lowest, least[k]);
  }
};

// Whether any of 16 values is this one.
template <class C>
OPSMITH_HOST_DEVICE bool is_among(const C* values, C value) {
  int hits = 0;
  for (int k = 0; k < 16; ++k) hits += values[k] == value;
  return hits > 0;
}

// Solves problems, one after another in the same memory. C is float or double.
template <class C>
class Solver {
 public:
  // Takes a matrix to solve. Its rows are laid out one after another, each filled up to whole vectors.
  template <class T>
  void read(const View<const T, 3>& cost, int64_t problem, const Sides& sides, bool maximize) {
    rows_ = sides.rows;
    columns_ = sides.columns;
    row_stride_ = (columns_ + 15) / 16 * 16;
    cost_.resize(static_cast<size_t>(rows_ * row_stride_));
    const T* const from = cost.data + problem * cost.stride[0];
    if (sides.is_transposed) {
      read_transposed(from, cost.stride[1], cost.stride[2], maximize);
    } else {
      read_rows(from, cost.stride[1], cost.stride[2], maximize);
    }
    for (int64_t i = 0; i < rows_; ++i) {
      C* const own = cost_.data() + i * row_stride_;
      std::fill(own + columns_, own + row_stride_, static_cast<C>(infinity));
    }
  }

  void solve() {
    row_dual_.assign(static_cast<size_t>(rows_), 0.0);
    column_dual_.assign(static_cast<size_t>(row_stride_), 0.0);
    distance_.resize(static_cast<size_t>(row_stride_));
    previous_.resize(static_cast<size_t>(row_stride_));
    column_of_.assign(static_cast<size_t>(rows_), -1);
    row_of_.assign(static_cast<size_t>(row_stride_), -1);
    penalty_ = infinity;
    for (int64_t row = 0; row < rows_; ++row) take_cheapest(row);
    for (int64_t row = 0; row < rows_; ++row) {
      if (column_of_[row] < 0) augment(row);
    }
  }

  // The column of a row, and the row of a column, or -1.
  int64_t column_of(int64_t row) const { return column_of_[row]; }
  int64_t row_of(int64_t column) const { return row_of_[column]; }

 private:
  // A column whose distance is final, and its dual before the search.
  struct Done {
    int64_t column;
    double distance, dual;
  };

  template <class T>
  void read_rows(const T* from, int64_t row_stride, int64_t column_stride, bool maximize) {
    for (int64_t i = 0; i < rows_; ++i) {
      C* const to = cost_.data() + i * row_stride_;
      load_block<T>(from + i * row_stride, column_stride, columns_, to);
      with_best_isa(
          [maximize](C* own, int64_t count) {
            for (int64_t j = 0; j < count; ++j) own[j] = cost_of<C>(own[j], maximize);
          },
          to, columns_);
    }
  }

  // In tiles, so that both sides stay in the cache.
  template <class T>
  void read_transposed(const T* from, int64_t row_stride, int64_t column_stride, bool maximize) {
    constexpr int64_t tile = 16;
    for (int64_t first = 0; first < columns_; first += tile) {
      const int64_t behind = std::min(columns_, first + tile);
      for (int64_t i = 0; i < rows_; ++i) {
        for (int64_t j = first; j < behind; ++j) {
          cost_[i * row_stride_ + j] = cost_of<T>(from[j * row_stride + i * column_stride], maximize);
        }
      }
    }
  }

  const C* row(int64_t i) const { return cost_.data() + i * row_stride_; }

  void take_cheapest(int64_t i) {
    C lowest;
    with_vector_bytes(LowestCost{}, row(i), row_stride_, &lowest);
    if (!(lowest < static_cast<C>(infinity))) return;
    row_dual_[i] = static_cast<double>(lowest);
    int64_t column = 0;
    while (!is_among(row(i) + column, lowest)) column += 16;
    while (row(i)[column] != lowest) ++column;
    if (row_of_[column] < 0) pair(i, column);
  }

  // The first column at this distance, one that is free if there is one.
  int64_t nearest_at(double reached) const {
    int64_t nearest = -1;
    with_best_isa(
        [this, &nearest](double reached, const double* distance, int64_t columns) {
          for (int64_t first = 0; first < columns; first += 16) {
            if (!is_among(distance + first, reached)) continue;
            for (int64_t j = first; j < first + 16; ++j) {
              if (distance[j] != reached) continue;
              if (row_of_[j] < 0) {
                nearest = j;
                return;
              }
              if (nearest < 0) nearest = j;
            }
          }
        },
        reached, distance_.data(), row_stride_);
    return nearest;
  }

  // Matches one more row, by the shortest path to a column that is free, or to a row that is left without one.
  void augment(int64_t start) {
    std::fill(distance_.begin(), distance_.end(), infinity);
    done_.clear();
    int64_t i = start, last = start, column;
    double reached = 0, least = infinity;
    for (;;) {
      const double offset = reached - row_dual_[i];
      if (offset < least) least = offset, last = i;
      with_vector_bytes(ReachColumns{}, row(i), column_dual_.data(), offset, i, row_stride_, distance_.data(),
                        previous_.data(), &reached);
      if (reached == infinity && penalty_ == infinity) penalty_ = penalty_of(largest_of_all(), rows_);
      if (reached > least + penalty_) {
        reached = least + penalty_;
        column = column_of_[last];
        column_of_[last] = -1;
        break;
      }
      column = nearest_at(reached);
      if (row_of_[column] < 0) break;
      done_.push_back({column, reached, column_dual_[column]});
      column_dual_[column] = -infinity;
      distance_[column] = infinity;
      i = row_of_[column];
    }
    row_dual_[start] += reached;
    for (const Done& done : done_) {
      const double change = reached - done.distance;
      column_dual_[done.column] = done.dual - change;
      row_dual_[row_of_[done.column]] += change;
    }
    while (column >= 0) {
      const int64_t from = previous_[column], next = column_of_[from];
      pair(from, column);
      if (from == start) break;
      column = next;
    }
  }

  void pair(int64_t row, int64_t column) {
    column_of_[row] = column;
    row_of_[column] = row;
  }

  double largest_of_all() const {
    C largest = 0;
    for (const C one : cost_) {
      if (one < static_cast<C>(infinity)) largest = std::max(largest, one < 0 ? -one : one);
    }
    return static_cast<double>(largest);
  }

  int64_t rows_ = 0, columns_ = 0, row_stride_ = 0;
  double penalty_ = infinity;
  std::vector<C> cost_;
  std::vector<double> row_dual_, column_dual_, distance_;
  std::vector<int64_t> previous_, column_of_, row_of_;
  std::vector<Done> done_;
};

}  // namespace
}  // namespace opsmith::ops::linear_assignment
