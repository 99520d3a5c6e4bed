// Solves problems of linear assignment on a GPU, each by one block.
//
// Threads share out the columns: number j is thread j % threads', which alone reads and writes what a search notes
// about it. A step of a search has one barrier, behind which all threads know the next column; decisions are made by
// all of them alike, so that none is missing at a barrier. Paths are followed by the first thread.
#pragma once

#include "block.cuh"
#include "linear_assignment.h"

namespace opsmith::ops::linear_assignment {
namespace {

constexpr int columns_at_once = 4;  // whose costs a thread loads before it needs the first
constexpr uint32_t is_taken = 0x80000000u;

// What is known about a problem's rows and columns.
struct State {
  double* row_dual;     // [rows]
  double* column_dual;  // [columns], and so are those below but for column_of
  double* distance;     // of the search that is on
  int32_t* previous;    // the row on the path to a column
  int32_t* is_done;     // whether its distance is final
  int32_t* row_of;      // or -1
  int32_t* column_of;   // [rows], or -1

  OPSMITH_HOST_DEVICE static int64_t bytes(int64_t rows, int64_t columns) {
    const int64_t all = rows * static_cast<int64_t>(sizeof(double) + sizeof(int32_t)) +
                        columns * static_cast<int64_t>(2 * sizeof(double) + 3 * sizeof(int32_t));
    return (all + 15) / 16 * 16;
  }
  __device__ static State in(void* memory, int64_t rows, int64_t columns) {
    State state;
    state.row_dual = static_cast<double*>(memory);
    state.column_dual = state.row_dual + rows;
    state.distance = state.column_dual + columns;
    state.previous = reinterpret_cast<int32_t*>(state.distance + columns);
    state.is_done = state.previous + columns;
    state.row_of = state.is_done + columns;
    state.column_of = state.row_of + columns;
    return state;
  }
};

// What warps tell each other. Steps take turns with the two rows of `first`: who writes to one has passed the barrier
// of the step between, which all reach when they have read it.
struct Shared {
  Candidate<double> first[2][most_warps];
  double largest[most_warps];
};

template <class C>
class Problem {
 public:
  __device__ Problem(const C* matrix, const Sides& sides, void* memory, Shared& shared)
      : matrix_(matrix),
        rows_(static_cast<int>(sides.rows)),
        columns_(static_cast<int>(sides.columns)),
        state_(State::in(memory, sides.rows, sides.columns)),
        shared_(shared) {}

  // By all threads of the block; behind it all of them may read the results.
  __device__ void solve() {
    take_cheapest();
    for (int row = 0; row < rows_; ++row) {
      if (state_.column_of[row] < 0) augment(row);
    }
  }

  __device__ int row_of(int64_t column) const { return state_.row_of[column]; }
  __device__ int column_of(int64_t row) const { return state_.column_of[row]; }

 private:
  __device__ const C* row(int i) const { return matrix_ + static_cast<int64_t>(i) * columns_; }

  // Each row, a warp's, takes its cheapest column, if no row before it does.
  __device__ void take_cheapest() {
    constexpr int32_t nobody = 0x7fffffff;
    for (int j = threadIdx.x; j < columns_; j += blockDim.x) {
      state_.column_dual[j] = 0;
      state_.row_of[j] = nobody;
    }
    for (int i = threadIdx.x; i < rows_; i += blockDim.x) state_.column_of[i] = -1;
    __syncthreads();
    const int lane = threadIdx.x % lanes, warps = blockDim.x / lanes;
    for (int i = threadIdx.x / lanes; i < rows_; i += warps) {
      Candidate<C> own = no_candidate<C>;
      for (int j = lane; j < columns_; j += lanes) {
        const Candidate<C> other{row(i)[j], static_cast<uint32_t>(j)};
        if (other.is_before(own)) own = other;
      }
      own = gpu::first_of_warp(own);
      if (lane != 0) continue;
      const bool is_any = own.key < static_cast<C>(infinity);
      state_.row_dual[i] = is_any ? static_cast<double>(own.key) : 0.0;
      if (is_any) atomicMin(&state_.row_of[own.rank], i);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < columns_; j += blockDim.x) {
      const int32_t owner = state_.row_of[j];
      if (owner == nobody) {
        state_.row_of[j] = -1;
      } else {
        state_.column_of[owner] = j;
      }
    }
    __syncthreads();
  }

  // Brings this thread's columns up to date with a row that has been reached, and returns the nearest.
  __device__ Candidate<double> reach_columns(int i, double offset) {
    const C* const __restrict__ costs = row(i);
    const int threads = blockDim.x;
    Candidate<double> nearest = no_candidate<double>;
    for (int first = threadIdx.x; first < columns_; first += columns_at_once * threads) {
      C cost[columns_at_once];
#pragma unroll
      for (int k = 0; k < columns_at_once; ++k) {
        const int j = first + k * threads;
        cost[k] = j < columns_ ? costs[j] : static_cast<C>(infinity);
      }
#pragma unroll
      for (int k = 0; k < columns_at_once; ++k) {
        const int j = first + k * threads;
        if (j >= columns_ || state_.is_done[j]) continue;
        const double reduced = reduced_cost(static_cast<double>(cost[k]), state_.column_dual[j], offset);
        double distance = state_.distance[j];
        if (reduced < distance) {
          distance = reduced;
          state_.distance[j] = reduced;
          state_.previous[j] = i;
        }
        const Candidate<double> own{distance, static_cast<uint32_t>(j) | (state_.row_of[j] < 0 ? 0u : is_taken)};
        if (own.is_before(nearest)) nearest = own;
      }
    }
    return nearest;
  }

  // Matches one more row, by the shortest path to a column that is free, or to a row that is left without one.
  __device__ void augment(int start) {
    for (int j = threadIdx.x; j < columns_; j += blockDim.x) {
      state_.distance[j] = infinity;
      state_.is_done[j] = 0;
    }
    int i = start, last = start, column = -1;
    double reached = 0, least = infinity;
    for (int step = 0;; ++step) {
      const double offset = reached - state_.row_dual[i];
      if (offset < least) least = offset, last = i;
      const Candidate<double> nearest = gpu::first_of_block(reach_columns(i, offset), shared_.first[step % 2],
                                                            blockDim.x / lanes, no_candidate<double>);
      reached = nearest.key;
      if (reached == infinity && penalty_ == infinity) penalty_ = penalty_of(largest_of_all(), rows_);
      if (reached > least + penalty_) {
        reached = least + penalty_;
        break;
      }
      const int next = static_cast<int>(nearest.rank & ~is_taken);
      if ((nearest.rank & is_taken) == 0) {
        column = next;
        break;
      }
      if (next % static_cast<int>(blockDim.x) == static_cast<int>(threadIdx.x)) state_.is_done[next] = 1;
      i = state_.row_of[next];
    }
    // All have read the duals of rows, before the last barrier. Each row is that of one column.
    if (threadIdx.x == 0) state_.row_dual[start] += reached;
    for (int j = threadIdx.x; j < columns_; j += blockDim.x) {
      if (!state_.is_done[j]) continue;
      const double change = reached - state_.distance[j];
      state_.column_dual[j] -= change;
      state_.row_dual[state_.row_of[j]] += change;
    }
    __syncthreads();
    if (threadIdx.x == 0) follow_path(start, last, column);
    __syncthreads();
  }

  // Back along the path that ends in a column, or without one in a row that loses its own.
  __device__ void follow_path(int start, int last, int column) {
    if (column < 0) {
      column = state_.column_of[last];
      state_.column_of[last] = -1;
    }
    while (column >= 0) {
      const int i = state_.previous[column], next = state_.column_of[i];
      state_.column_of[i] = column;
      state_.row_of[column] = i;
      if (i == start) break;
      column = next;
    }
  }

  // The largest of all costs that are not infinite. A problem asks for it once at most.
  __device__ double largest_of_all() {
    double largest = 0;
    const int64_t count = static_cast<int64_t>(rows_) * columns_;
    for (int64_t k = threadIdx.x; k < count; k += blockDim.x) {
      const C size = matrix_[k] < 0 ? -matrix_[k] : matrix_[k];
      if (size < static_cast<C>(infinity) && static_cast<double>(size) > largest) largest = static_cast<double>(size);
    }
    return largest_of_block(largest, shared_.largest);
  }

  const C* matrix_;
  int rows_, columns_;
  State state_;
  Shared& shared_;
  double penalty_ = infinity;
};

// A block's state is in dynamic shared memory, or where that is too small, in `workspace`.
template <class T>
__global__ void __launch_bounds__(most_threads)
    solve_problems(View<const T, 3> cost, View<const int64_t, 1> row_lengths, View<const int64_t, 1> column_lengths,
                   const compute_t<T>* matrices, char* workspace, int64_t state_bytes, View<int64_t, 2> column_of_row,
                   View<int64_t, 2> row_of_column) {
  extern __shared__ double state_memory[];
  __shared__ Shared shared;
  void* const memory = workspace == nullptr ? static_cast<void*>(state_memory) : workspace + blockIdx.x * state_bytes;
  const int64_t n = cost.size[1], m = cost.size[2];
  for (int64_t index = blockIdx.x; index < cost.size[0]; index += gridDim.x) {
    const Sides sides = sides_of(cost, row_lengths, column_lengths, index);
    Problem<compute_t<T>> problem(matrices + index * n * m, sides, memory, shared);
    problem.solve();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      column_of_row(index, i) = i >= sides.n() ? -1 : sides.is_transposed ? problem.row_of(i) : problem.column_of(i);
    }
    for (int64_t j = threadIdx.x; j < m; j += blockDim.x) {
      row_of_column(index, j) = j >= sides.m() ? -1 : sides.is_transposed ? problem.column_of(j) : problem.row_of(j);
    }
    __syncthreads();
  }
}

}  // namespace
}  // namespace opsmith::ops::linear_assignment
