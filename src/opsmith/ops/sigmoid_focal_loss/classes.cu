// Focal loss on a GPU, for targets that are the index of a class in each row: no one-hot matrix is made of them.
#include <opsmith/reduce.h>

#include <type_traits>

#include "focal.h"

using namespace opsmith;

namespace {

constexpr int threads = GridSum::threads;

// How far one round of the grid's threads goes in a matrix's elements: in all, and in whole rows and the rest. With
// that the walk divides once a thread and not once a vector.
struct Stride {
  int64_t elements;
  int64_t rows;
  int64_t columns;
};

Stride stride_of(unsigned blocks, int width, int64_t columns) {
  const int64_t elements = static_cast<int64_t>(blocks) * threads * width;
  return {elements, elements / columns, elements % columns};
}

// What a row's target tells the elements of a vector, of which the k-th is at (row, column).
template <int width, class C>
struct Row {
  int hit;  // which of them is the class's, and at which the row has ended; neither need be in the vector
  int end;
  C sign_of_others;
  bool is_ignored;

  __device__ Row(const View<const int64_t, 1>& targets, int64_t columns, int64_t row, int64_t column, int k) {
    // The last vector may end behind the last row.
    const int64_t target = row < targets.size[0] ? targets(row) : -1;
    const int64_t to_hit = target - column, to_end = columns - column;
    hit = to_hit >= 0 && to_hit < width ? k + static_cast<int>(to_hit) : -1;
    end = to_end < width ? k + static_cast<int>(to_end) : width;
    sign_of_others = target > columns ? C(NAN) : C(-1);
    is_ignored = target < 0;
  }
};

// The kernels come in two kinds. With `whole`, a row is a whole number of vectors and the matrix lies in one piece:
// then no vector is of two rows, and the last one is full.

// `count` of `width` elements from the one at (row, column) on, the i-th in row-major order. Vectors are for matrices
// without gaps; the fewer elements of the last one, and those of any other matrix, are read one by one.
template <int width, class T>
__device__ Vector<T, width> read(const View<const T, 2>& from, bool dense, int64_t i, int64_t row, int64_t column,
                                 int count) {
  if (dense && count == width) return *reinterpret_cast<const Vector<T, width>*>(from.data + i);
  Vector<T, width> values{};
#pragma unroll
  for (int k = 0; k < width; ++k) {
    if (k < count) values.item[k] = from(row, column);
    if (++column == from.size[1]) column = 0, ++row;
  }
  return values;
}

// Calls each(i, row, column, count) for the vectors of one thread.
template <bool whole, int width, class F>
__device__ void for_each_vector(int64_t rows, int64_t columns, const Stride& stride, const F& each) {
  int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * width;
  int64_t row = i / columns, column = i % columns;
#pragma unroll 1
  for (; i < rows * columns; i += stride.elements) {
    const int64_t left = rows * columns - i;
    each(i, row, column, whole || left > width ? width : static_cast<int>(left));
    row += stride.rows;
    column += stride.columns;
    if (column >= columns) column -= columns, ++row;
  }
}

// Calls each(k, sign, is_ignored) for the elements of a vector.
template <bool whole, int width, class C, class F>
__device__ void for_each_sign(const View<const int64_t, 1>& targets, int64_t columns, int64_t row, int64_t column,
                              const F& each) {
  Row<width, C> at(targets, columns, row, column, 0);
#pragma unroll
  for (int k = 0; k < width; ++k) {
    if (!whole && k == at.end) at = Row<width, C>(targets, columns, ++row, 0, k);
    each(k, k == at.hit ? C(1) : at.sign_of_others, at.is_ignored);
  }
}

template <bool whole, int width, class T, class F>
__global__ void __launch_bounds__(threads)
    sum_classes(F f, View<const T, 2> x, bool dense, View<const int64_t, 1> targets, Stride stride,
                double* __restrict__ partials) {
  using C = compute_t<T>;
  double sum = 0;
  for_each_vector<whole, width>(x.size[0], x.size[1], stride, [&](int64_t i, int64_t row, int64_t column, int count) {
    const Vector<T, width> values = read<width>(x, whole || dense, i, row, column, count);
    C terms = 0;
    for_each_sign<whole, width, C>(targets, x.size[1], row, column, [&](int k, C sign, bool ignored) {
      const C term = f(static_cast<C>(values.item[k]), sign);
      terms += ignored || k >= count ? C(0) : term;
    });
    sum += terms;
  });
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// out = f(x, sign), or with a matrix of gradients f(grad, x, sign).
template <bool whole, int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_classes(F f, View<const T, 2> grad, bool grad_dense, View<const T, 2> x, bool dense,
                View<const int64_t, 1> targets, Stride stride, T* __restrict__ out) {
  using C = compute_t<T>;
  for_each_vector<whole, width>(x.size[0], x.size[1], stride, [&](int64_t i, int64_t row, int64_t column, int count) {
    const Vector<T, width> values = read<width>(x, whole || dense, i, row, column, count);
    Vector<T, width> grads{}, results;
    if constexpr (std::is_invocable_v<F, C, C, C>) grads = read<width>(grad, grad_dense, i, row, column, count);
    for_each_sign<whole, width, C>(targets, x.size[1], row, column, [&](int k, C sign, bool ignored) {
      C result;
      if constexpr (std::is_invocable_v<F, C, C, C>) {
        result = f(static_cast<C>(grads.item[k]), static_cast<C>(values.item[k]), sign);
      } else {
        result = f(static_cast<C>(values.item[k]), sign);
      }
      results.item[k] = static_cast<T>(ignored ? C(0) : result);
    });
    if (count == width) {
      *reinterpret_cast<Vector<T, width>*>(out + i) = results;
    } else {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        if (k < count) out[i + k] = results.item[k];
      }
    }
  });
}

// Whether a matrix can be read in vectors of 16 bytes.
template <class T>
bool is_dense(const View<const T, 2>& matrix) {
  return matrix.is_contiguous() && is_aligned(matrix.data, 16);
}

template <class T, class F>
void launch_sum(const char* op, Stream stream, F f, double divisor, View<const T, 2> x, View<const int64_t, 1> targets,
                View<T, 0> out) {
  constexpr int width = 16 / sizeof(T);
  const GridSum sum((x.numel() + width - 1) / width);
  if (x.numel() > 0) {
    const bool dense = is_dense(x), whole = dense && x.size[1] % width == 0;
    const auto kernel = whole ? sum_classes<true, width, T, F> : sum_classes<false, width, T, F>;
    const Stride stride = stride_of(sum.blocks, width, x.size[1]);
    kernel<<<sum.blocks, threads, 0, stream>>>(f, x, dense, targets, stride, sum.partials());
  }
  sum.finish(op, stream, divisor, out);
}

template <class T, class F>
void launch_map(const char* op, Stream stream, F f, View<const T, 2> grad, View<const T, 2> x,
                View<const int64_t, 1> targets, View<T, 2> out) {
  constexpr int width = 16 / sizeof(T);
  // Some rounds for each thread, so that its one division is shared, and blocks enough for any GPU.
  constexpr unsigned most_blocks = 4096;
  const unsigned needed = blocks_for((x.numel() + width - 1) / width, threads);
  const unsigned blocks = needed < most_blocks ? needed : most_blocks;
  const bool dense = is_dense(x), whole = dense && x.size[1] % width == 0;
  const auto kernel = whole ? map_classes<true, width, T, F> : map_classes<false, width, T, F>;
  const Stride stride = stride_of(blocks, width, x.size[1]);
  kernel<<<blocks, threads, 0, stream>>>(f, grad, is_dense(grad), x, dense, targets, stride, out.data);
  check_launch(op);
}

}  // namespace

template <class T>
void focal_loss_classes(View<const T, 2> inputs, View<const int64_t, 1> targets, double alpha, double gamma,
                        View<T, 2> loss, Stream stream) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Loss = ClassLoss<compute_t<T>, decltype(power)>;
    launch_map("focal_loss_classes", stream, Loss(alpha, power), {}, inputs, targets, loss);
  });
}

template <class T>
void focal_loss_classes_backward(View<const T, 2> grad_loss, View<const T, 2> inputs, View<const int64_t, 1> targets,
                                 double alpha, double gamma, View<T, 2> grad_inputs, Stream stream) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Slope = ClassSlope<compute_t<T>, decltype(power)>;
    launch_map("focal_loss_classes_backward", stream, TimesEach<Slope>{{alpha, power}}, grad_loss, inputs, targets,
               grad_inputs);
  });
}

template <class T>
void focal_loss_classes_sum(View<const T, 2> inputs, View<const int64_t, 1> targets, double alpha, double gamma,
                            bool mean, View<T, 0> loss, Stream stream) {
  const double divisor = mean ? static_cast<double>(inputs.numel()) : 1.0;
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Loss = ClassLoss<compute_t<T>, decltype(power)>;
    launch_sum("focal_loss_classes_sum", stream, Loss(alpha, power), divisor, inputs, targets, loss);
  });
}

template <class T>
void focal_loss_classes_sum_backward(View<const T, 0> grad_loss, View<const T, 2> inputs,
                                     View<const int64_t, 1> targets, double alpha, double gamma, bool mean,
                                     View<T, 2> grad_inputs, Stream stream) {
  using C = compute_t<T>;
  const C scale = mean ? C(1) / static_cast<C>(inputs.numel()) : C(1);
  with_power<C>(gamma, [&](auto power) {
    using Slope = ClassSlope<C, decltype(power)>;
    launch_map("focal_loss_classes_sum_backward", stream, TimesTotal<T, Slope>{{alpha, power}, grad_loss.data, scale},
               {}, inputs, targets, grad_inputs);
  });
}
