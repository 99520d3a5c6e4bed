// Focal loss on a GPU, for targets that are the index of a class in each row: no one-hot matrix is made of them.
#include <opsmith/reduce.h>

#include <type_traits>

#include "focal.h"

using namespace opsmith;

namespace {

constexpr int threads = GridSum::threads;

// What a thread takes at once, by two loads of 16 bytes. Finding its place takes as long as some elements do: of
// float32 16 bytes took 52 us where 32 take 42, and of bfloat16 44 and 39 (H200, the sum of 200,000 x 80).
constexpr int vector_bytes = 32;

template <class T, int width>
struct alignas(16) Elements {
  T item[width];
};

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

// What the targets say about the elements of a vector: a bit for each.
struct Labels {
  unsigned positive;
  unsigned ignored;  // those behind the matrix's end, too
  unsigned invalid;

  // For `count` elements from the one at (row, column) on. They are of one row as a rule, and it goes on in the next.
  __device__ Labels(const View<const int64_t, 1>& targets, int64_t columns, int64_t row, int64_t column, int count)
      : positive(0), ignored(~0u << count), invalid(0) {
    for (int k = 0; k < count; ++row, column = 0) {
      const int64_t target = targets(row), left = columns - column;
      const int end = left < count - k ? k + static_cast<int>(left) : count;
      const unsigned span = (1u << end) - (1u << k);
      const int64_t hit = target - column;
      if (hit >= 0 && hit < end - k) positive |= 1u << (k + static_cast<int>(hit));
      if (target < 0) ignored |= span;
      if (target > columns) invalid |= span;
      k = end;
    }
  }

  template <class C>
  __device__ C sign(int k) const {
    return positive >> k & 1 ? C(1) : C(-1);
  }

  // What a result becomes; few vectors have anything to change.
  __device__ bool are_plain() const { return (ignored | invalid) == 0; }
  template <class C>
  __device__ C settle(int k, C result) const {
    return ignored >> k & 1 ? C(0) : invalid >> k & 1 ? C(NAN) : result;
  }
};

// `count` of `width` elements from the one at (row, column) on, the i-th in row-major order. Vectors are for matrices
// without gaps; the fewer elements of the last one, and those of any other matrix, are read one by one.
template <int width, class T>
__device__ Elements<T, width> read(const View<const T, 2>& from, bool dense, int64_t i, int64_t row, int64_t column,
                                   int count) {
  if (dense && count == width) return *reinterpret_cast<const Elements<T, width>*>(from.data + i);
  Elements<T, width> values{};
#pragma unroll
  for (int k = 0; k < width; ++k) {
    if (k < count) values.item[k] = from(row, column);
    if (++column == from.size[1]) column = 0, ++row;
  }
  return values;
}

// Calls each(i, row, column, count) for the vectors of one thread.
template <int width, class F>
__device__ void for_each_vector(int64_t rows, int64_t columns, const Stride& stride, const F& each) {
  const int64_t n = rows * columns;
  int64_t i = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) * width;
  int64_t row = i / columns, column = i % columns;
#pragma unroll 1
  for (; i < n; i += stride.elements) {
    each(i, row, column, n - i < width ? static_cast<int>(n - i) : width);
    row += stride.rows;
    column += stride.columns;
    if (column >= columns) column -= columns, ++row;
  }
}

template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    sum_classes(F f, View<const T, 2> x, bool dense, View<const int64_t, 1> targets, Stride stride,
                double* __restrict__ partials) {
  using C = compute_t<T>;
  double sum = 0;
  for_each_vector<width>(x.size[0], x.size[1], stride, [&](int64_t i, int64_t row, int64_t column, int count) {
    const Elements<T, width> values = read<width>(x, dense, i, row, column, count);
    const Labels labels(targets, x.size[1], row, column, count);
    C terms[width];
#pragma unroll
    for (int k = 0; k < width; ++k) terms[k] = f(static_cast<C>(values.item[k]), labels.sign<C>(k));
    if (!labels.are_plain()) {
#pragma unroll
      for (int k = 0; k < width; ++k) terms[k] = labels.settle(k, terms[k]);
    }
#pragma unroll
    for (int k = 1; k < width; ++k) terms[0] += terms[k];
    sum += terms[0];
  });
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// out = f(x, sign), or with a matrix of gradients f(grad, x, sign).
template <int width, class T, class F>
__global__ void __launch_bounds__(threads)
    map_classes(F f, View<const T, 2> grad, bool grad_dense, View<const T, 2> x, bool dense,
                View<const int64_t, 1> targets, Stride stride, T* __restrict__ out) {
  using C = compute_t<T>;
  for_each_vector<width>(x.size[0], x.size[1], stride, [&](int64_t i, int64_t row, int64_t column, int count) {
    const Elements<T, width> values = read<width>(x, dense, i, row, column, count);
    const Labels labels(targets, x.size[1], row, column, count);
    C results[width];
    if constexpr (std::is_invocable_v<F, C, C, C>) {
      const Elements<T, width> grads = read<width>(grad, grad_dense, i, row, column, count);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        results[k] = f(static_cast<C>(grads.item[k]), static_cast<C>(values.item[k]), labels.sign<C>(k));
      }
    } else {
#pragma unroll
      for (int k = 0; k < width; ++k) results[k] = f(static_cast<C>(values.item[k]), labels.sign<C>(k));
    }
    if (!labels.are_plain()) {
#pragma unroll
      for (int k = 0; k < width; ++k) results[k] = labels.settle(k, results[k]);
    }
    if (count == width) {
      Elements<T, width> stored;
#pragma unroll
      for (int k = 0; k < width; ++k) stored.item[k] = static_cast<T>(results[k]);
      *reinterpret_cast<Elements<T, width>*>(out + i) = stored;
    } else {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        if (k < count) out[i + k] = static_cast<T>(results[k]);
      }
    }
  });
}

// Whether a matrix can be read in vectors.
template <class T>
bool is_dense(const View<const T, 2>& matrix) {
  return matrix.is_contiguous() && is_aligned(matrix.data, 16);
}

template <class T, class F>
void launch_sum(const char* op, Stream stream, F f, double divisor, View<const T, 2> x, View<const int64_t, 1> targets,
                View<T, 0> out) {
  constexpr int width = vector_bytes / sizeof(T);
  const GridSum sum((x.numel() + width - 1) / width);
  if (sum.blocks > 0) {
    sum_classes<width><<<sum.blocks, threads, 0, stream>>>(f, x, is_dense(x), targets,
                                                           stride_of(sum.blocks, width, x.size[1]), sum.partials());
  }
  sum.finish(op, stream, divisor, out);
}

template <class T, class F>
void launch_map(const char* op, Stream stream, F f, View<const T, 2> grad, View<const T, 2> x,
                View<const int64_t, 1> targets, View<T, 2> out) {
  constexpr int width = vector_bytes / sizeof(T);
  // Some rounds for each thread, so that its one division is shared, and blocks enough for any GPU.
  constexpr unsigned most_blocks = 4096;
  const unsigned needed = blocks_for((x.numel() + width - 1) / width, threads);
  const unsigned blocks = needed < most_blocks ? needed : most_blocks;
  map_classes<width><<<blocks, threads, 0, stream>>>(f, grad, is_dense(grad), x, is_dense(x), targets,
                                                     stride_of(blocks, width, x.size[1]), out.data);
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
