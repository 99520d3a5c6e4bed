// Focal loss on a GPU, for targets that are the index of a class in each row: no one-hot matrix is made of them.
#include <opsmith/early_launch.h>
#include <opsmith/reduce.h>

#include <type_traits>

#include "focal.h"

using namespace opsmith;
using namespace opsmith::ops::sigmoid_focal_loss;

namespace opsmith::ops::sigmoid_focal_loss {
namespace {

constexpr int threads = GridSum::threads;

// What a thread takes at once, by two loads of 16 bytes. Finding its place takes as long as some elements do: of
// float32 16 bytes took 52 us where 32 take 42, and of bfloat16 44 and 39 (H200, the sum of 200,000 x 80).
constexpr int vector_bytes = 32;

// Of those it works on eight elements at once, in the registers that leave room for so many blocks on a multiprocessor:
// 8 of them, or 16, are slower by up to a tenth. Doubles do not fit into these registers.
template <class T>
constexpr int blocks_at_once = sizeof(T) == 8 ? 1 : 12;
constexpr int most_at_once = 8;

template <class T, int width>
struct alignas(width == 1 ? sizeof(T) : 16) Elements {
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
template <int width>
struct Labels {
  unsigned positive = 0;
  unsigned ignored = 0;
  unsigned invalid = 0;

  // For the elements from the one at (row, column) on. They are of one row as a rule, and it goes on in the next.
  __device__ Labels(const View<const int64_t, 1>& targets, int64_t columns, int64_t row, int64_t column) {
    int k = 0;
    do {
      const int64_t target = targets(row), left = columns - column;
      const int end = left < width - k ? k + static_cast<int>(left) : width;
      // What lies before the vector is a large number, too.
      const uint64_t hit = static_cast<uint64_t>(target - column);
      if (hit < static_cast<uint64_t>(end - k)) positive |= 1u << (k + static_cast<int>(hit));
      if (target < 0 || target > columns) {
        const unsigned span = (1u << end) - (1u << k);
        (target < 0 ? ignored : invalid) |= span;
      }
      k = end;
      column = 0;
      ++row;
    } while (k < width);
  }

  template <class C>
  __device__ C sign(int k) const {
    return positive & (1u << k) ? C(1) : C(-1);
  }

  // What a result becomes; few vectors have anything to change.
  __device__ bool are_plain() const { return (ignored | invalid) == 0; }
  template <class C>
  __device__ C settle(int k, C result) const {
    return ignored & (1u << k) ? C(0) : invalid & (1u << k) ? C(NAN) : result;
  }
};

// `width` elements from the one at (row, column) on, the i-th in row-major order. Vectors are for matrices without
// gaps; the elements of any other are read one by one.
template <int width, class T>
__device__ Elements<T, width> read(const View<const T, 2>& from, int64_t i, int64_t row, int64_t column) {
  if constexpr (width == 1) {
    return {from(row, column)};
  } else {
    return *reinterpret_cast<const Elements<T, width>*>(from.data + i);
  }
}

// Calls each(std::integral_constant<int, width>(), i, row, column) for the vectors of one thread. The last n % width
// elements go one by one to the first threads.
template <int width, class F>
__device__ void for_each_vector(int64_t rows, int64_t columns, const Stride& stride, const F& each) {
  const int64_t n = rows * columns, whole = n / width * width;
  const int64_t thread = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  int64_t i = thread * width;
  int64_t row = i / columns, column = i % columns;
#pragma unroll 1
  for (; i < whole; i += stride.elements) {
    each(std::integral_constant<int, width>(), i, row, column);
    row += stride.rows;
    column += stride.columns;
    if (column >= columns) column -= columns, ++row;
  }
  if constexpr (width > 1) {
    i = whole + thread;
    if (i < n) each(std::integral_constant<int, 1>(), i, i / columns, i % columns);
  }
}

// f(grads..., values, sign) of a vector's elements from `begin` on, as many as there are results.
template <int count, int width, class T, class F, class... Grads>
__device__ void evaluate(const F& f, const Labels<width>& labels, int begin, compute_t<T> (&results)[count],
                         const Elements<T, width>& values, const Grads&... grads) {
  using C = compute_t<T>;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    results[k] = f(static_cast<C>(grads.item[begin + k])..., static_cast<C>(values.item[begin + k]),
                   labels.template sign<C>(begin + k));
  }
  if (labels.are_plain()) return;
#pragma unroll
  for (int k = 0; k < count; ++k) results[k] = labels.settle(begin + k, results[k]);
}

template <int width, class T, class F>
__global__ void __launch_bounds__(threads, blocks_at_once<T>)
    sum_classes(F f, View<const T, 2> x, View<const int64_t, 1> targets, Stride stride, double* __restrict__ partials) {
  let_next_kernel_come_up();
  double sum = 0;
  for_each_vector<width>(x.size[0], x.size[1], stride, [&](auto size, int64_t i, int64_t row, int64_t column) {
    constexpr int all = decltype(size)::value, piece = all < most_at_once ? all : most_at_once;
    const Elements<T, all> values = read<all>(x, i, row, column);
    const Labels<all> labels(targets, x.size[1], row, column);
    compute_t<T> total = 0;
#pragma unroll
    for (int begin = 0; begin < all; begin += piece) {
      compute_t<T> terms[piece];
      evaluate(f, labels, begin, terms, values);
#pragma unroll
      for (int k = 0; k < piece; ++k) total += terms[k];
    }
    sum += total;
  });
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// out = f(x, sign), or with a matrix of gradients f(grad, x, sign).
template <int width, class T, class F, class... Grad>
__global__ void __launch_bounds__(threads, blocks_at_once<T>)
    map_classes(F f, View<const T, 2> x, View<const int64_t, 1> targets, Stride stride, T* __restrict__ out,
                Grad... grad) {
  for_each_vector<width>(x.size[0], x.size[1], stride, [&](auto size, int64_t i, int64_t row, int64_t column) {
    constexpr int all = decltype(size)::value, piece = all < most_at_once ? all : most_at_once;
    const Elements<T, all> values = read<all>(x, i, row, column);
    const Labels<all> labels(targets, x.size[1], row, column);
    const auto put = [&](const auto&... grads) {
#pragma unroll
      for (int begin = 0; begin < all; begin += piece) {
        compute_t<T> results[piece];
        evaluate(f, labels, begin, results, values, grads...);
        *reinterpret_cast<Vector<T, piece>*>(out + i + begin) = rounded<T>(results);
      }
    };
    put(read<all>(grad, i, row, column)...);
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
  const bool dense = is_dense(x);
  const int width = dense ? vector_bytes / sizeof(T) : 1;
  const GridSum sum((x.numel() + width - 1) / width);
  if (sum.blocks > 0) {
    const auto kernel = dense ? sum_classes<vector_bytes / sizeof(T), T, F> : sum_classes<1, T, F>;
    kernel<<<sum.blocks, threads, 0, stream>>>(f, x, targets, stride_of(sum.blocks, width, x.size[1]), sum.partials());
  }
  sum.finish(op, stream, divisor, out);
}

template <class T, class F, class... Grad>
void launch_map(const char* op, Stream stream, F f, View<const T, 2> x, View<const int64_t, 1> targets, View<T, 2> out,
                Grad... grad) {
  const bool dense = (is_dense(x) && ... && is_dense(grad));
  const int width = dense ? vector_bytes / sizeof(T) : 1;
  // Some rounds for each thread, so that its one division is shared, and blocks enough for any GPU.
  constexpr unsigned most_blocks = 8192;
  const unsigned needed = blocks_for((x.numel() + width - 1) / width, threads);
  const unsigned blocks = needed < most_blocks ? needed : most_blocks;
  const auto kernel = dense ? map_classes<vector_bytes / sizeof(T), T, F, Grad...> : map_classes<1, T, F, Grad...>;
  kernel<<<blocks, threads, 0, stream>>>(f, x, targets, stride_of(blocks, width, x.size[1]), out.data, grad...);
  check_launch(op);
}

}  // namespace
}  // namespace opsmith::ops::sigmoid_focal_loss

template <class T>
void focal_loss_classes(View<const T, 2> inputs, View<const int64_t, 1> targets, double alpha, double gamma,
                        View<T, 2> loss, Stream stream) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Loss = ClassLoss<T, decltype(power)>;
    launch_map("focal_loss_classes", stream, Loss(alpha, power), inputs, targets, loss);
  });
}

template <class T>
void focal_loss_classes_backward(View<const T, 2> grad_loss, View<const T, 2> inputs, View<const int64_t, 1> targets,
                                 double alpha, double gamma, View<T, 2> grad_inputs, Stream stream) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Slope = ClassSlope<T, decltype(power)>;
    launch_map("focal_loss_classes_backward", stream, TimesEach<Slope>{{alpha, power}}, inputs, targets, grad_inputs,
               grad_loss);
  });
}

template <class T>
void focal_loss_classes_sum(View<const T, 2> inputs, View<const int64_t, 1> targets, double alpha, double gamma,
                            bool mean, View<T, 0> loss, Stream stream) {
  const double divisor = mean ? static_cast<double>(inputs.numel()) : 1.0;
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Loss = ClassLoss<T, decltype(power)>;
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
    using Slope = ClassSlope<T, decltype(power)>;
    launch_map("focal_loss_classes_sum_backward", stream, TimesTotal<T, Slope>{{alpha, power}, grad_loss.data, scale},
               inputs, targets, grad_inputs);
  });
}
