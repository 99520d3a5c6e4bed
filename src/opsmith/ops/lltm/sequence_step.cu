// The pointwise part of a step of a sequence, for what scan_*.cu and grid.cu do not serve.
//
// Unlike the operator lltm_gates it adds the hidden state's product to the input's, keeps the cell in the type of the
// arithmetic, and writes where the sequence's results belong: nothing is copied between two products.
#include <opsmith/early_launch.h>

#include "pointwise.h"
#include "sequence_gpu.h"

namespace opsmith::ops::lltm {

namespace {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads) forward_step(Step<T> to) {
  using C = compute_t<T>;
  wait_for_earlier_kernels();
  const int64_t units = to.cell.size[1], count = to.cell.size[0] * units;
#pragma unroll 1
  for (int64_t n = blockIdx.x * int64_t{threads} + threadIdx.x; n < count; n += gridDim.x * int64_t{threads}) {
    const int64_t row = n / units, unit = n % units;
    C gate[3];
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const int64_t column = g * units + unit;
      gate[g] = to.input(row, column) + static_cast<C>(to.bias(column)) + to.product(row, column);
      to.gates(row, column) = static_cast<T>(gate[g]);
    }
    const LltmState<C> state = lltm_step<C>(gate[0], gate[1], gate[2], to.cell(row, unit));
    to.cell(row, unit) = state.cell;
    to.hidden(row, unit) = static_cast<T>(state.hidden);
    to.cells(row, unit) = static_cast<T>(state.cell);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) backward_step(StepBackward<T> to) {
  using C = compute_t<T>;
  wait_for_earlier_kernels();
  const int64_t units = to.grad_cell.size[1], count = to.grad_cell.size[0] * units;
#pragma unroll 1
  for (int64_t n = blockIdx.x * int64_t{threads} + threadIdx.x; n < count; n += gridDim.x * int64_t{threads}) {
    const int64_t row = n / units, unit = n % units;
    const auto gate = [&](int g) { return static_cast<C>(to.gates(row, g * units + unit)); };
    const C grad_hidden = static_cast<C>(to.grad_hidden(row, unit)) + to.product(row, unit);
    const LltmGradient<C> gradient = lltm_step_backward<C>(grad_hidden, to.grad_cell(row, unit), gate(0), gate(1),
                                                           gate(2), static_cast<C>(to.cells(row, unit)));
    to.grad_cell(row, unit) = gradient.cell;
    to.grad_gates(row, unit) = static_cast<T>(gradient.i);
    to.grad_gates(row, units + unit) = static_cast<T>(gradient.o);
    to.grad_gates(row, 2 * units + unit) = static_cast<T>(gradient.c);
  }
}

}  // namespace

template <class T>
void step(const Step<T>& to, void* stream) {
  const unsigned blocks = blocks_for(to.cell.numel(), threads);
  launch_early<forward_step<T>>("lltm_sequence", blocks, threads, 0, static_cast<Stream>(stream), to);
}

template <class T>
void step_backward(const StepBackward<T>& to, void* stream) {
  const unsigned blocks = blocks_for(to.grad_cell.numel(), threads);
  launch_early<backward_step<T>>("lltm_sequence_backward", blocks, threads, 0, static_cast<Stream>(stream), to);
}

template void step(const Step<float16>&, void*);
template void step(const Step<bfloat16>&, void*);
template void step(const Step<float>&, void*);
template void step(const Step<double>&, void*);
template void step_backward(const StepBackward<float16>&, void*);
template void step_backward(const StepBackward<bfloat16>&, void*);
template void step_backward(const StepBackward<float>&, void*);
template void step_backward(const StepBackward<double>&, void*);

#if defined(__HIPCC__)

// AMD's GPUs have no clusters of thread blocks, which scan_*.cu is made of: there all goes step by step.
template <class T>
bool scan(const Scan<T>&, void*) {
  return false;
}

template <class T>
bool scan_backward(const ScanBackward<T>&, void*) {
  return false;
}

template bool scan(const Scan<float16>&, void*);
template bool scan(const Scan<bfloat16>&, void*);
template bool scan(const Scan<float>&, void*);
template bool scan(const Scan<double>&, void*);
template bool scan_backward(const ScanBackward<float16>&, void*);
template bool scan_backward(const ScanBackward<bfloat16>&, void*);
template bool scan_backward(const ScanBackward<float>&, void*);
template bool scan_backward(const ScanBackward<double>&, void*);

#endif

}  // namespace opsmith::ops::lltm
