// All steps of a sequence's forward in one launch.
#include "sequence_gpu.h"

// On AMD's GPUs there is nothing of this: see sequence_step.cu.
#if !defined(__HIPCC__)

#include "scan_forward.cuh"
#include "scan_launch.cuh"

namespace opsmith::ops::lltm {

namespace {

template <class T, int columns>
bool launch(const Scan<T>& to, void* stream) {
  constexpr int few = ScanShape<T>::rows_at_once, many = ScanShape<T>::most_rows;
  return launch_scan(
      "lltm_sequence", scan_kernel<Scan<T>, ForwardMemory<T, columns, few>::bytes, few>(scan_steps<T, columns, few>),
      scan_kernel<Scan<T>, ForwardMemory<T, columns, many>::bytes, many>(scan_steps<T, columns, many>),
      ScanShape<T>::most_turns, blocks_of_cluster<T>(to.hiddens.size[2]), to.hiddens.size[1], to, stream);
}

}  // namespace

template <class T>
bool scan(const Scan<T>& to, void* stream) {
  const int64_t state = to.hiddens.size[2];
  if constexpr (sizeof(T) < 8) {
    if (state <= 128) return launch<T, 128>(to, stream);
    if (state <= 256) return launch<T, 256>(to, stream);
    if (state <= most_units) return launch<T, most_units>(to, stream);
  }
  return false;
}

template bool scan(const Scan<opsmith::float16>&, void*);
template bool scan(const Scan<opsmith::bfloat16>&, void*);
template bool scan(const Scan<float>&, void*);
template bool scan(const Scan<double>&, void*);

}  // namespace opsmith::ops::lltm

#endif
