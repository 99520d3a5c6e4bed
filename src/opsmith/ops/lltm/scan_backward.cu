// All steps of a sequence's backward in one launch.
#include "sequence_gpu.h"

// On AMD's GPUs there is nothing of this: see sequence_step.cu.
#if !defined(__HIPCC__)

#include "scan_backward.cuh"
#include "scan_launch.cuh"

namespace opsmith::ops::lltm {

namespace {

template <class T, int columns>
bool launch(const ScanBackward<T>& to, void* stream) {
  constexpr int few = ScanShape<T>::rows_at_once, many = ScanShape<T>::most_rows;
  using Argument = ScanBackward<T>;
  return launch_scan(
      "lltm_sequence_backward",
      scan_kernel<Argument, BackwardMemory<T, columns, few>::bytes, few>(scan_backward_steps<T, columns, few>),
      scan_kernel<Argument, BackwardMemory<T, columns, many>::bytes, many>(scan_backward_steps<T, columns, many>),
      ScanShape<T>::most_turns, blocks_of_cluster<T>(to.cells.size[2]), to.cells.size[1], to, stream);
}

}  // namespace

template <class T>
bool scan_backward(const ScanBackward<T>& to, void* stream) {
  const int64_t state = to.cells.size[2];
  if constexpr (sizeof(T) < 8) {
    // Only for floats does a thread's share of the weight grow with the state.
    if constexpr (sizeof(T) == 4) {
      if (state <= 256) return launch<T, 256>(to, stream);
    }
    if (state <= most_units) return launch<T, most_units>(to, stream);
  }
  return false;
}

template bool scan_backward(const ScanBackward<opsmith::float16>&, void*);
template bool scan_backward(const ScanBackward<opsmith::bfloat16>&, void*);
template bool scan_backward(const ScanBackward<float>&, void*);
template bool scan_backward(const ScanBackward<double>&, void*);

}  // namespace opsmith::ops::lltm

#endif
