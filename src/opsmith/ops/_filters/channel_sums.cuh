// The gradient of a bias from the sums that blocks have left: a kernel for bias_act and filtered_lrelu.
#pragma once

#include <opsmith/reduce.h>

namespace opsmith::ops::filters {
namespace {

// grad_b[c] is the sum of partials[c, :], `terms` of them, in blocks of GridSum::threads.
template <class T>
__global__ void __launch_bounds__(GridSum::threads)
    sum_channels(const double* __restrict__ partials, int64_t terms, View<T, 1> grad_b) {
  for (int64_t channel = blockIdx.x; channel < grad_b.size[0]; channel += gridDim.x) {
    double sum = 0;
#pragma unroll 4  // so many loads are on their way
    for (int64_t i = threadIdx.x; i < terms; i += GridSum::threads) sum += partials[channel * terms + i];
    __syncthreads();
    sum = sum_over_block(sum);
    if (threadIdx.x == 0) grad_b(channel) = static_cast<T>(static_cast<compute_t<T>>(sum));
  }
}

}  // namespace
}  // namespace opsmith::ops::filters
