#include <opsmith/math.h>

#include "block.cuh"

using namespace opsmith;

template <class T, class Index, int THREADS>
__global__ void __launch_bounds__(THREADS)
    softmax_rows(const T* __restrict__ x, compute_t<T> scale, T* __restrict__ y, Index N, Index x_stride_0) {
  using C = compute_t<T>;
  const T* from = x + Index(blockIdx.x) * x_stride_0;
  T* to = y + Index(blockIdx.x) * N;
  C largest = bit_cast<float>(0xff800000u);  // minus infinity
  for (Index at = threadIdx.x; at < N; at += THREADS) {
    const C value = scale * C(from[at]);
    largest = value > largest ? value : largest;
  }
  largest = over_block<THREADS>(largest, [](C a, C b) { return a > b ? a : b; });
  C sum = 0;
  for (Index at = threadIdx.x; at < N; at += THREADS) sum += math::exp(scale * C(from[at]) - largest);
  sum = over_block<THREADS>(sum, [](C a, C b) { return a + b; });
  for (Index at = threadIdx.x; at < N; at += THREADS) to[at] = T(math::exp(scale * C(from[at]) - largest) / sum);
}

template <class T, class Index, int THREADS>
__global__ void __launch_bounds__(THREADS)
    softmax_rows_backward(const T* __restrict__ grad_y, const T* x, compute_t<T> scale, const T* __restrict__ y,
                          T* __restrict__ grad_x, Index N) {
  using C = compute_t<T>;
  const Index row = Index(blockIdx.x) * N;
  C sum = 0;
  for (Index at = threadIdx.x; at < N; at += THREADS) sum += C(grad_y[row + at]) * C(y[row + at]);
  sum = over_block<THREADS>(sum, [](C a, C b) { return a + b; });
  for (Index at = threadIdx.x; at < N; at += THREADS) {
    grad_x[row + at] = T(scale * C(y[row + at]) * (C(grad_y[row + at]) - sum));
  }
}
