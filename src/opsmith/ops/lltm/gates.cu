// The pointwise part of an LLTM step on a GPU. gates holds input gate, output gate and candidate side by side.
#include "pointwise.h"

using namespace opsmith;
using namespace opsmith::ops::lltm;

namespace opsmith::ops::lltm {
namespace {

// `width` adjacent columns from `column` on as one access, or a single one at any stride.
template <int width, class T>
__device__ Vector<T, width> load(const View<const T, 2>& view, int64_t row, int64_t column) {
  if constexpr (width == 1) {
    return {{view(row, column)}};
  } else {
    return *reinterpret_cast<const Vector<T, width>*>(view.data + row * view.stride[0] + column);
  }
}

template <int width, class T>
__device__ void store(const View<T, 2>& view, int64_t row, int64_t column, const Vector<T, width>& values) {
  if constexpr (width == 1) {
    view(row, column) = values.item[0];
  } else {
    *reinterpret_cast<Vector<T, width>*>(view.data + row * view.stride[0] + column) = values;
  }
}

// Calls f(row, column) for every row and every `width`th column. Rows go along y, so that nothing divides. Unrolling
// would only make it long: few threads take a second round.
template <int width, class F>
__device__ void for_each_group(int64_t rows, int64_t columns, const F& f) {
#pragma unroll 1
  for (int64_t row = blockIdx.y * static_cast<int64_t>(blockDim.y) + threadIdx.y; row < rows;
       row += static_cast<int64_t>(gridDim.y) * blockDim.y) {
#pragma unroll 1
    for (int64_t column = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * width; column < columns;
         column += static_cast<int64_t>(gridDim.x) * blockDim.x * width) {
      f(row, column);
    }
  }
}

constexpr int threads = 256;

// Adjacent units that a thread takes at once: 16 bytes of float or double, 8 of a 16-bit type. With four to ten such
// accesses to a thread there are enough bytes on their way; eight units would double the code, and the build's time.
template <class T>
constexpr int vector_width = sizeof(T) == 8 ? 2 : 4;

template <int width, class T>
__global__ void __launch_bounds__(threads)
    forward(View<const T, 2> gates, View<const T, 2> cell, View<T, 2> hidden, View<T, 2> new_cell) {
  using C = compute_t<T>;
  const int64_t columns = cell.size[1];
  for_each_group<width>(cell.size[0], columns, [&](int64_t row, int64_t column) {
    const auto i = load<width>(gates, row, column);
    const auto o = load<width>(gates, row, column + columns);
    const auto c = load<width>(gates, row, column + 2 * columns);
    const auto old = load<width>(cell, row, column);
    Vector<T, width> out, next;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const LltmState<C> state = lltm_step<C>(i.item[k], o.item[k], c.item[k], old.item[k]);
      out.item[k] = static_cast<T>(state.hidden);
      next.item[k] = static_cast<T>(state.cell);
    }
    store(hidden, row, column, out);
    store(new_cell, row, column, next);
  });
}

template <int width, class T>
__global__ void __launch_bounds__(threads)
    backward(View<const T, 2> grad_hidden, View<const T, 2> grad_new_cell, View<const T, 2> gates,
             View<const T, 2> new_cell, View<T, 2> grad_gates, View<T, 2> grad_cell) {
  using C = compute_t<T>;
  const int64_t columns = new_cell.size[1];
  for_each_group<width>(new_cell.size[0], columns, [&](int64_t row, int64_t column) {
    const auto from_hidden = load<width>(grad_hidden, row, column);
    const auto from_cell = load<width>(grad_new_cell, row, column);
    const auto i = load<width>(gates, row, column);
    const auto o = load<width>(gates, row, column + columns);
    const auto c = load<width>(gates, row, column + 2 * columns);
    const auto next = load<width>(new_cell, row, column);
    Vector<T, width> grad_i, grad_o, grad_c, to_cell;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const LltmGradient<C> gradient =
          lltm_step_backward<C>(from_hidden.item[k], from_cell.item[k], i.item[k], o.item[k], c.item[k], next.item[k]);
      grad_i.item[k] = static_cast<T>(gradient.i);
      grad_o.item[k] = static_cast<T>(gradient.o);
      grad_c.item[k] = static_cast<T>(gradient.c);
      to_cell.item[k] = static_cast<T>(gradient.cell);
    }
    store(grad_gates, row, column, grad_i);
    store(grad_gates, row, column + columns, grad_o);
    store(grad_gates, row, column + 2 * columns, grad_c);
    store(grad_cell, row, column, to_cell);
  });
}

// Whether every group of `width` columns of every row starts at a multiple of its size.
template <int width, class T, class... Matrix>
bool allow_vectors(int64_t columns, const Matrix&... matrix) {
  return columns % width == 0 &&
         ((matrix.stride[1] == 1 && matrix.stride[0] % width == 0 && is_aligned(matrix.data, width * sizeof(T))) &&
          ...);
}

struct Launch {
  dim3 blocks;
  dim3 threads;
};

// As many threads along a row as it has groups, up to the whole block; the rest of the block takes further rows.
Launch plan_launch(int64_t rows, int64_t groups) {
  int x = 1;
  while (x < threads && x < groups) x *= 2;
  const int y = threads / x;
  const unsigned blocks_y = blocks_for(rows, y);
  return {dim3(blocks_for(groups, x), blocks_y < 65535 ? blocks_y : 65535), dim3(x, y)};  // the limit of a grid's y
}

}  // namespace
}  // namespace opsmith::ops::lltm

template <class T>
void lltm_gates(View<const T, 2> gates, View<const T, 2> cell, View<T, 2> hidden, View<T, 2> new_cell, Stream stream) {
  constexpr int width = vector_width<T>;
  const int64_t rows = cell.size[0], columns = cell.size[1];
  if (rows == 0 || columns == 0) return;
  if (allow_vectors<width, T>(columns, gates, cell, hidden, new_cell)) {
    const Launch launch = plan_launch(rows, columns / width);
    forward<width><<<launch.blocks, launch.threads, 0, stream>>>(gates, cell, hidden, new_cell);
  } else {
    const Launch launch = plan_launch(rows, columns);
    forward<1><<<launch.blocks, launch.threads, 0, stream>>>(gates, cell, hidden, new_cell);
  }
  check_launch("lltm_gates");
}

template <class T>
void lltm_gates_backward(View<const T, 2> grad_hidden, View<const T, 2> grad_new_cell, View<const T, 2> gates,
                         View<const T, 2> new_cell, View<T, 2> grad_gates, View<T, 2> grad_cell, Stream stream) {
  constexpr int width = vector_width<T>;
  const int64_t rows = new_cell.size[0], columns = new_cell.size[1];
  if (rows == 0 || columns == 0) return;
  if (allow_vectors<width, T>(columns, grad_hidden, grad_new_cell, gates, new_cell, grad_gates, grad_cell)) {
    const Launch launch = plan_launch(rows, columns / width);
    backward<width><<<launch.blocks, launch.threads, 0, stream>>>(grad_hidden, grad_new_cell, gates, new_cell,
                                                                  grad_gates, grad_cell);
  } else {
    const Launch launch = plan_launch(rows, columns);
    backward<1><<<launch.blocks, launch.threads, 0, stream>>>(grad_hidden, grad_new_cell, gates, new_cell, grad_gates,
                                                              grad_cell);
  }
  check_launch("lltm_gates_backward");
}
