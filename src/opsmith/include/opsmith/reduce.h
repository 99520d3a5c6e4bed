// The sum of an elementwise function, sum(f(in[i]...)), on the CPU and on a GPU, without storing its terms.
//
// Sums are made in double, in a fixed order: a result does not depend on the number of threads, on how blocks are
// scheduled, or on the run. On the CPU the number of terms alone decides that order. On a GPU it also matters whether
// all inputs are dense and aligned to 16 bytes: the terms of 16 bytes are then added up in their own type first, and a
// view that is not can have another last digit. f is as for elementwise.h.
#pragma once

#include "elementwise.h"
#if defined(__CUDACC__) || defined(__HIPCC__)
#include "early_launch.h"
#include "workspace.h"
#endif

namespace opsmith {

#if !defined(__CUDACC__) && !defined(__HIPCC__)

// The sum of n numbers. They go to 16 sums in turn, which vectors of any length can hold.
template <class C>
double sum_block(int64_t n, const C* from) {
  double sum = 0;
  with_best_isa(
      [](int64_t n, const C* __restrict__ from, double* __restrict__ sum) {
        constexpr int64_t lanes = 16;
        double lane[lanes] = {};
        const int64_t whole = n / lanes * lanes;
        for (int64_t k = 0; k < whole; k += lanes) {
          for (int64_t j = 0; j < lanes; ++j) lane[j] += static_cast<double>(from[k + j]);
        }
        for (int64_t k = whole; k < n; ++k) lane[k - whole] += static_cast<double>(from[k]);
        for (int64_t j = 0; j < lanes; ++j) *sum += lane[j];
      },
      n, from, &sum);
  return sum;
}

// The sum of part(begin, end), doubles, over parts of [0, n) that are worked on in parallel. Parts begin at multiples
// of block_size.
template <class F>
double sum_parts(int64_t n, const F& part) {
  constexpr int64_t least = 32 * block_size;  // some 10 us of the cheapest of functions
  constexpr int64_t most_parts = 1024;        // for more threads than a machine has, and few enough for the stack
  const int64_t even = (n + most_parts - 1) / most_parts;
  const int64_t size = even <= least ? least : (even + block_size - 1) / block_size * block_size;
  const int64_t parts = (n + size - 1) / size;
  double sums[most_parts];
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) sums[p] = part(p * size, (p + 1) * size < n ? (p + 1) * size : n);
  });
  double sum = 0;
  for (int64_t p = 0; p < parts; ++p) sum += sums[p];
  return sum;
}

// out = sum(f(in[i]...)) / divisor.
template <class F, class Out, class... In>
void sum_elementwise(F f, double divisor, View<Out, 0> out, View<const In, 1>... in) {
  using C = compute_t<Out>;
  const int64_t sizes[] = {in.size[0]...};
  const double sum = sum_parts(sizes[0], [&](int64_t begin, int64_t end) {
    double part = 0;
    C terms[block_size];
    for (int64_t i = begin; i < end; i += block_size) {
      const int64_t n = end - i < block_size ? end - i : block_size;
      elementwise_block(f, n, terms, InputBlock<In>(&in(i), in.stride[0], n).data...);
      part += sum_block(n, terms);
    }
    return part;
  });
  *out.data = static_cast<Out>(static_cast<C>(sum / divisor));
}

#else

// The sum of one number of each thread of a block of GridSum::threads, for all of them. For one call in a kernel.
__device__ inline double sum_over_block(double value) {
  __shared__ double values[detail::elementwise_threads];
  values[threadIdx.x] = value;
  for (unsigned half = detail::elementwise_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
  }
  __syncthreads();
  return values[0];
}

namespace detail {

constexpr int sum_threads = elementwise_threads;

template <class Out>
__global__ void __launch_bounds__(sum_threads)
    sum_partials(const double* partials, int count, double divisor, Out* out) {
  wait_for_earlier_kernels();
  double sum = 0;
#pragma unroll 16
  for (int p = threadIdx.x; p < count; p += sum_threads) sum += partials[p];
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) *out = static_cast<Out>(static_cast<compute_t<Out>>(sum / divisor));
}

template <class F, class First, int width, class... In>
__device__ auto sum_vector(const F& f, const Vector<First, width> first, const Vector<In, width>... in) {
  compute_t<First> sum = 0;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    sum += f(static_cast<compute_t<First>>(first.item[k]), static_cast<compute_t<In>>(in.item[k])...);
  }
  return sum;
}

// Vectors of `width` elements as in elementwise.h. A vector's terms are added up in their own type, which is most of
// the additions; what grows is the double.
template <int width, class F, class... In>
__global__ void __launch_bounds__(sum_threads)
    sum_dense(F f, int64_t n, double* __restrict__ partials, const In* __restrict__... in) {
  let_next_kernel_come_up();
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  const int64_t vectors = n / width;
  double sum = 0;
#pragma unroll 1
  for (int64_t i = first; i < vectors; i += step) {
    sum += sum_vector(f, reinterpret_cast<const Vector<In, width>*>(in)[i]...);
  }
#pragma unroll 1
  for (int64_t i = vectors * width + first; i < n; i += step) sum += f(static_cast<compute_t<In>>(in[i])...);
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

template <class F, class... In>
__global__ void __launch_bounds__(sum_threads)
    sum_strided(F f, int64_t n, double* __restrict__ partials, View<const In, 1>... in) {
  let_next_kernel_come_up();
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  double sum = 0;
#pragma unroll 1
  for (int64_t i = first; i < n; i += step) sum += f(static_cast<compute_t<In>>(in(i))...);
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

}  // namespace detail

// A sum over the whole GPU, in two kernels: the first, of blocks(...) blocks of `threads` threads, leaves a number of
// each block in partials(), and finish() launches the second, which adds those up.
class GridSum {
 public:
  static constexpr int threads = detail::sum_threads;

  // For `rounds` that the threads of a grid take between them. `blocks` is 0 where there are none, which is no launch.
  // At most 2,048: that fills a GPU of 132 multiprocessors with 2,048 threads each, and does not depend on the GPU.
  explicit GridSum(int64_t rounds) : blocks(limited(rounds)), partials_(blocks) {}

  double* partials() const { return partials_.data; }

  // out = sum / divisor.
  template <class Out>
  void finish(const char* op, Stream stream, double divisor, View<Out, 0> out) const {
    check_launch(op);
    launch_early<detail::sum_partials<Out>>(op, 1, threads, 0, stream, static_cast<const double*>(partials()),
                                            static_cast<int>(blocks), divisor, out.data);
  }

  const unsigned blocks;

 private:
  static unsigned limited(int64_t rounds) {
    constexpr unsigned most = 2048;
    const unsigned needed = rounds > 0 ? blocks_for(rounds, threads) : 0;
    return needed < most ? needed : most;
  }

  Workspace<double> partials_;
};

// out = sum(f(in[i]...)) / divisor, on `stream`. `op` is the operator's name, for errors.
template <class F, class Out, class... In>
void sum_elementwise(const char* op, Stream stream, F f, double divisor, View<Out, 0> out, View<const In, 1>... in) {
  constexpr int width = 16 / sizeof(Out);
  static_assert(detail::all_same_size<Out, In...>, "sum_elementwise() takes elements of one size");
  const int64_t sizes[] = {in.size[0]...};
  const int64_t n = sizes[0];
  const bool vectorised = (... && (in.stride[0] == 1 && is_aligned(in.data, 16)));
  const GridSum sum(vectorised ? (n + width - 1) / width : n);
  if (sum.blocks > 0 && vectorised) {
    detail::sum_dense<width><<<sum.blocks, GridSum::threads, 0, stream>>>(f, n, sum.partials(), in.data...);
  } else if (sum.blocks > 0) {
    detail::sum_strided<<<sum.blocks, GridSum::threads, 0, stream>>>(f, n, sum.partials(), in...);
  }
  sum.finish(op, stream, divisor, out);
}

#endif

}  // namespace opsmith
