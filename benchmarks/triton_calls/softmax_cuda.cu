#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

using namespace opsmith;

namespace {

constexpr int threads = 128;

// A warp for each row.
template <class T>
__global__ void softmax_rows(View<const T, 2> x, double scale, View<T, 2> y) {
  using C = compute_t<T>;
  const int lane = threadIdx.x % lanes;
  const int64_t rows_at_once = int64_t(gridDim.x) * (threads / lanes), n = x.size[1];
  for (int64_t row = (int64_t(blockIdx.x) * threads + threadIdx.x) / lanes; row < x.size[0]; row += rows_at_once) {
    C most = -INFINITY, sum = 0;
    for (int64_t j = lane; j < n; j += lanes) most = fmax(most, C(x(row, j)) * C(scale));
    for (int mask = lanes / 2; mask > 0; mask /= 2) most = fmax(most, shuffle_xor(most, mask));
    for (int64_t j = lane; j < n; j += lanes) sum += exp(C(x(row, j)) * C(scale) - most);
    for (int mask = lanes / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    for (int64_t j = lane; j < n; j += lanes) y(row, j) = T(exp(C(x(row, j)) * C(scale) - most) / sum);
  }
}

}  // namespace

template <class T>
void softmax_cuda(View<const T, 2> x, double scale, View<T, 2> y, Stream stream) {
  softmax_rows<<<blocks_for(x.size[0] * lanes, threads), threads, 0, stream>>>(x, scale, y);
  check_launch("softmax_cuda");
}
