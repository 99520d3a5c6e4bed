#include <opsmith/kernel.h>

using namespace opsmith;

namespace {

template <class T>
__global__ void axpy_kernel(double a, View<const T, 1> x, View<const T, 1> y, View<T, 1> out) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < out.size[0]) out(i) = T(compute_t<T>(a) * x(i) + y(i));
}

}  // namespace

template <class T>
void axpy(double a, View<const T, 1> x, View<const T, 1> y, View<T, 1> out, Stream stream) {
  axpy_kernel<T><<<(out.size[0] + 255) / 256, 256, 0, stream>>>(a, x, y, out);
}
