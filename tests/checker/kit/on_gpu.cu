#include <opsmith/kernel.h>

using namespace opsmith;

namespace {

__global__ void double_all(const float* x, float* out, int64_t count) {
  const int64_t n = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (n < count) out[n] = 2 * x[n];
}

void launch(View<const float, 1> x, View<float, 1> out, Stream stream) {
  const int64_t count = x.size[0];
  if (count == 0) return;
  double_all<<<blocks_for(count, 256), 256, 0, stream>>>(x.data, out.data, count);
  check_launch("on_gpu");
}

}  // namespace

void doubled(View<const float, 1> x, View<float, 1> out, Stream stream) { launch(x, out, stream); }

void doubled_on_default_stream(View<const float, 1> x, View<float, 1> out, Stream) { launch(x, out, nullptr); }

void doubled_on_first_gpu(View<const float, 1> x, View<float, 1> out, Stream stream) {
  int device = -1;
  cudaGetDevice(&device);
  cudaSetDevice(0);
  // A stream belongs to a device; the default one to whichever is current.
  launch(x, out, device == 0 ? stream : nullptr);
  cudaSetDevice(device);
}

void doubled_and_waited_for(View<const float, 1> x, View<float, 1> out, Stream stream) {
  launch(x, out, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) fail("the kernel failed while it ran");
}

void doubled_with_malloc(View<const float, 1> x, View<float, 1> out, Stream stream) {
  float* buffer = nullptr;
  if (cudaMalloc(&buffer, sizeof(float) * (x.size[0] + 1)) != cudaSuccess) fail("no memory");
  launch(x, out, stream);
  cudaFree(buffer);
}

void shifted_on_gpu(View<const float, 1> x, View<float, 1> out, Stream stream) {
  // One element too far at the end.
  if (x.size[0] == 0) return;
  double_all<<<blocks_for(x.size[0], 256), 256, 0, stream>>>(x.data + 1, out.data, x.size[0]);
  check_launch("shifted_on_gpu");
}
