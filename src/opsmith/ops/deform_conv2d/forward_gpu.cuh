// The forward on a GPU: which blocks make it, and what they are given.
#pragma once

#include "forward_tiles.cuh"
#include "forward_warpgroups.cuh"
#include "forward_weights.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Outputs of the widest blocks, which sample least. Doubles have not the registers for wide ones, and AMD's GPUs not
// the shared memory.
#if defined(__HIPCC__)
template <class T>
constexpr int most_columns = 64;
#else
template <class T>
constexpr int most_columns = sizeof(T) == 8 ? 64 : 256;
#endif

// What the current GPU has: bytes of shared memory for a block, and multiprocessors.
struct Device {
  int shared_bytes = 48 << 10, multiprocessors = 1;

  Device() {
    int device = 0;
#if defined(__HIPCC__)
    if (hipGetDevice(&device) != hipSuccess) return;
    (void)hipDeviceGetAttribute(&shared_bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, device);
    (void)hipDeviceGetAttribute(&multiprocessors, hipDeviceAttributeMultiprocessorCount, device);
#else
    if (cudaGetDevice(&device) != cudaSuccess) return;
    cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
#endif
  }
};

template <class T, int columns>
constexpr int64_t least_shared_bytes = sizeof(BlockRoom<T>) + 2 * sizeof(Stage<T, columns>);

// Blocks of `columns` outputs.
template <class T>
ForwardGrid grid_for(const Convolution& call, int columns) {
  const Runs<T> runs(call);
  // As many as the steps of a group, of which each offset group may add one that is not full.
  const int64_t segments = call.channels > 0 ? call.group_channels() / call.offset_group_channels() + 2 : 0;
  if ((divide_up(call.group_channels(), step_width<T>) + segments) * call.taps() >= int64_t{1} << 31) {
    fail("deform_conv2d() on a GPU sums up fewer than 2^31 times 64 bytes of a group's channels and taps");
  }
  int most_steps = 0;
  for (int64_t group = 0; group < call.groups; ++group) {
    const int steps = runs.steps(static_cast<int>(group));
    if (steps > most_steps) most_steps = steps;
  }
  return {static_cast<unsigned>(divide_up(call.group_outputs(), columns)), static_cast<unsigned>(call.groups),
          static_cast<unsigned>(divide_up(call.positions(), product_rows)), most_steps};
}

inline unsigned blocks_of(const Convolution& call, const ForwardGrid& grid) {
  return grid_of(call.images * grid.groups * grid.across * grid.tiles);
}

template <class T>
int64_t weights_size(const ForwardGrid& grid, int columns) {
  const int64_t size = int64_t{grid.groups} * grid.across * grid.most_steps * columns * step_width<T>;
  return size > 0 ? size : 1;
}

// Tensors of a call, of which the input is turned to where the sampler reads it.
template <class T>
struct Forward {
  PixelTurn<T> turn;
  Sampler<T> sampler;
  View<const T, 4> weight;
  View<const T, 1> bias;
  View<T, 4> out;

  // Writes what the blocks read: pixels, and weights to `room`.
  template <class Order>
  void prepare_for(const ForwardGrid& grid, T* room, Stream stream) const {
    const WeightLayout<T, Order> layout(sampler.call, weight, grid.across, grid.most_steps, room);
    prepare<T, Order><<<grid_of(int64_t{turn.blocks} + layout.blocks), tile_threads, 0, stream>>>(turn, layout);
  }
};

// By blocks that any GPU has.
template <class T, int columns, bool tf32>
void convolve_by_tiles(const Device& device, const Forward<T>& forward, Stream stream) {
  const ForwardGrid grid = grid_for<T>(forward.sampler.call, columns);
  const Workspace<T> weights(weights_size<T>(grid, columns));
  forward.template prepare_for<WeightOrder<columns, false, tf32, false>>(grid, weights.data, stream);
  constexpr int64_t of_stage = sizeof(Stage<T, columns>), of_room = sizeof(BlockRoom<T>);
  // A block has a kilobyte more for itself.
  int64_t stages = ((device.shared_bytes + 1024) / blocks_together<T, columns> - 1024 - of_room) / of_stage;
  stages = stages > most_stages ? most_stages : stages < 2 ? 2 : stages;
  const auto kernel = convolve_tiles<T, columns, tf32>;
  const int64_t bytes = stages * of_stage + of_room;
#if !defined(__HIPCC__)
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
#endif
  kernel<<<blocks_of(forward.sampler.call, grid), block_threads, bytes, stream>>>(
      forward.sampler, weights.data, grid, static_cast<int>(stages), forward.bias, forward.out);
}

// Whether a WidePoint can say where the pixels of an image are.
template <class T>
bool fits_wide_points(const Convolution& call, const Pixels<T>& pixels) {
  const int unit = pixels.has_vectors ? WideCorners<T, Reads::vectors>::unit : WideCorners<T, Reads::elements>::unit;
  return (call.height + 2) * pixels.row + (call.width + 1) * pixels.column < WidePoint::most_units * unit;
}

// By the blocks of forward_warpgroups.cuh; false, and nothing is done, where the current GPU has no code for them.
template <class T, bool split, int columns>
bool convolve_by_warpgroups(const Device& device, const Forward<T>& forward, Stream stream) {
#if defined(__HIPCC__)
  return false;
#else
  const auto kernel = convolve_wide<T, split, columns>;
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess || attributes.maxThreadsPerBlock < wide_threads) {
    return false;
  }
  const Convolution& call = forward.sampler.call;
  const PositionTiles tiles(call);
  ForwardGrid grid = grid_for<T>(call, columns);
  grid.tiles = grid_of(tiles.count());
  const unsigned count = blocks_of(call, grid), processors = static_cast<unsigned>(device.multiprocessors);
  const Workspace<T> weights(weights_size<T>(grid, columns) * (split ? 2 : 1));
  forward.template prepare_for<WeightOrder<columns, true, std::is_same_v<T, float> && !split, split>>(
      grid, weights.data, stream);
  constexpr int bytes = sizeof(WideBlock<T, split, columns>);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  launch_early<convolve_wide<T, split, columns>>(
      "deform_conv2d_sized", count < processors ? count : processors, wide_threads, bytes, stream, forward.sampler,
      static_cast<const T*>(weights.data), grid, tiles, count, forward.bias, forward.out);
  return true;
#endif
}

template <class T>
void convolve(const Convolution& call, const View<const T, 4>& input, const View<const T, 4>& offset,
              const View<const T, 4>& weight, const View<const T, 1>& bias, const View<const T, 4>& mask, bool tf32,
              const View<T, 4>& out, Stream stream) {
  const bool has_chunks =
      call.group_channels() % chunk_width<T> == 0 && call.offset_group_channels() % chunk_width<T> == 0;
  const bool is_copied = copy_size(input) > 0;
  // Small images would be mostly margin.
  const bool has_margin = is_copied && has_chunks && call.group_outputs() > 64 &&
                          PixelTurn<T>::size(input, true) <= 2 * PixelTurn<T>::size(input, false);
  const Workspace<T> room(is_copied ? PixelTurn<T>::size(input, has_margin) : 1);
  const PixelTurn<T> turn(input, is_copied ? room.data : nullptr, has_margin);
  const Forward<T> forward{turn, {call, pixels_of(turn, has_chunks, has_margin), offset, mask}, weight, bias, out};
  const Device device;
  // Wide blocks sample less, but there are fewer of them: not where they would leave half of the GPU idle.
  const int64_t wide_blocks = call.images * call.groups * divide_up(call.group_outputs(), most_columns<T>) *
                              divide_up(call.positions(), product_rows);
  const bool is_wide = call.group_outputs() > 128 && wide_blocks >= device.multiprocessors / 2 &&
                       device.shared_bytes >= least_shared_bytes<T, most_columns<T>>;
  with_tf32<T>(tf32, [&](auto rounded) {
    if constexpr (sizeof(T) <= 4) {
      constexpr bool split = std::is_same_v<T, float> && !rounded.value;
      // Where there are no more, blocks of 64 outputs take less time.
      if (call.group_outputs() > 64 && fits_wide_points(call, forward.sampler.pixels)) {
        if constexpr (!split) {
          if (call.group_outputs() > 128) {
            if (convolve_by_warpgroups<T, split, 256>(device, forward, stream)) return;
          }
        }
        if (convolve_by_warpgroups<T, split, 128>(device, forward, stream)) return;
      }
    }
    if (is_wide) {
      convolve_by_tiles<T, most_columns<T>, rounded.value>(device, forward, stream);
    } else {
      convolve_by_tiles<T, 64, rounded.value>(device, forward, stream);
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
