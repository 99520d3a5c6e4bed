// All steps of a sequence in one launch of a grid whose blocks wait for each other: whether the GPU runs so many blocks
// at once, and the launches.
#include <opsmith/atomic.h>

#include "sequence_gpu.h"

#if !defined(__HIPCC__)

#include "grid_backward.cuh"
#include "grid_forward.cuh"
#endif

namespace opsmith::ops::lltm {

#if defined(__HIPCC__)

// The products are written for NVIDIA's tensor cores.
template <class T>
int64_t grid_room(int64_t, int64_t, bool) {
  return 0;
}

template <class T>
void grid_scan(const Scan<T>&, void*, void*, void*) {}

template <class T>
void grid_scan_backward(const ScanBackward<T>&, void*, void*, void*) {}

#else

namespace {

// How many blocks of this kernel the current GPU runs at once; 0 where it cannot. Setting the attribute that a launch
// needs is a part of asking, which is done once for each GPU.
template <auto kernel, int bytes>
int blocks_at_once() {
  constexpr int most_devices = 64;
  static Atomic<int> known[most_devices];  // 0, or one more than the number
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= most_devices) return 0;
  if (known[device].load() == 0) {
    cudaFuncAttributes attributes{};
    int can_cooperate = 0, processors = 0, blocks = 0;
    // A GPU may have got code that was compiled for older ones, where the kernel's body is empty.
    const bool can = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90 &&
                     cudaDeviceGetAttribute(&can_cooperate, cudaDevAttrCooperativeLaunch, device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess &&
                     cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess &&
                     cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, grid_threads, bytes) == cudaSuccess;
    cudaGetLastError();  // a refusal is an answer here, and no error of the next launch
    known[device].store(1 + (can && can_cooperate != 0 ? blocks * processors : 0));
  }
  return known[device].load() - 1;
}

template <class T, int tiles>
struct ForwardLaunch {
  static constexpr int bytes = grid_bytes(tiles, forward_columns), units = forward_units;
  static constexpr auto kernel = grid_forward<T, tiles>;
};

template <class T, int tiles>
struct BackwardLaunch {
  static constexpr int bytes = grid_bytes(tiles, backward_columns), units = backward_units;
  static constexpr auto kernel = grid_backward<T, tiles>;
};

template <class Launch, class Argument>
void launch(const char* op, const Argument& to, int64_t state, void* room, void* arrivals, void* stream) {
  cudaLaunchAttribute together;
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(state / Launch::units));
  config.blockDim = dim3(grid_threads);
  config.dynamicSmemBytes = Launch::bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &together;
  config.numAttrs = 1;
  // The error of a refused launch is what check_launch finds.
  cudaLaunchKernelEx(&config, Launch::kernel, to, static_cast<uint4*>(room), static_cast<unsigned*>(arrivals));
  opsmith::check_launch(op);
}

// Calls f with the number of 16-row tiles as a constant.
template <class F>
auto with_tiles(int64_t batch, const F& f) {
  if (batch <= 16) return f(std::integral_constant<int, 1>());
  if (batch <= 32) return f(std::integral_constant<int, 2>());
  return f(std::integral_constant<int, 4>());
}

}  // namespace

template <class T>
int64_t grid_room(int64_t batch, int64_t state, bool is_backward) {
  if constexpr (sizeof(T) == 2) {
    if (batch > most_grid_rows || state > most_grid_units || state % backward_units != 0) return 0;
    return with_tiles(batch, [&](auto tiles) -> int64_t {
      using Forward = ForwardLaunch<T, tiles>;
      using Backward = BackwardLaunch<T, tiles>;
      const bool has_blocks = is_backward
                                  ? state / Backward::units <= blocks_at_once<Backward::kernel, Backward::bytes>()
                                  : state / Forward::units <= blocks_at_once<Forward::kernel, Forward::bytes>();
      const int64_t depth = is_backward ? 3 * state : state;
      return has_blocks ? 2 * 16 * tiles * depth * static_cast<int64_t>(sizeof(T)) : 0;
    });
  }
  return 0;
}

template <class T>
void grid_scan(const Scan<T>& to, void* room, void* arrivals, void* stream) {
  if constexpr (sizeof(T) == 2) {
    with_tiles(to.hiddens.size[1], [&](auto tiles) {
      launch<ForwardLaunch<T, tiles>>("lltm_sequence", to, to.hiddens.size[2], room, arrivals, stream);
    });
  }
}

template <class T>
void grid_scan_backward(const ScanBackward<T>& to, void* room, void* arrivals, void* stream) {
  if constexpr (sizeof(T) == 2) {
    with_tiles(to.cells.size[1], [&](auto tiles) {
      launch<BackwardLaunch<T, tiles>>("lltm_sequence_backward", to, to.cells.size[2], room, arrivals, stream);
    });
  }
}

#endif

template int64_t grid_room<opsmith::float16>(int64_t, int64_t, bool);
template int64_t grid_room<opsmith::bfloat16>(int64_t, int64_t, bool);
template int64_t grid_room<float>(int64_t, int64_t, bool);
template int64_t grid_room<double>(int64_t, int64_t, bool);
template void grid_scan(const Scan<opsmith::float16>&, void*, void*, void*);
template void grid_scan(const Scan<opsmith::bfloat16>&, void*, void*, void*);
template void grid_scan(const Scan<float>&, void*, void*, void*);
template void grid_scan(const Scan<double>&, void*, void*, void*);
template void grid_scan_backward(const ScanBackward<opsmith::float16>&, void*, void*, void*);
template void grid_scan_backward(const ScanBackward<opsmith::bfloat16>&, void*, void*, void*);
template void grid_scan_backward(const ScanBackward<float>&, void*, void*, void*);
template void grid_scan_backward(const ScanBackward<double>&, void*, void*, void*);

}  // namespace opsmith::ops::lltm
