// The weights as the forward's blocks on a GPU take them, step after step.
#pragma once

#include "step_product.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Which of a step's channels stands at a place of its 64 bytes. Where samples are multiplied from registers, a lane has
// 16 bytes of channels next to each other, and products of 32 bytes want of it 4 bytes and those 16 bytes further: so 4
// places of 4 bytes, 16 bytes apart, have the channels of a lane.
template <class T, bool from_registers>
__device__ constexpr int channel_at(int place) {
  if constexpr (!from_registers) return place;
  constexpr int in_word = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  const int word = place / in_word;
  return (word % 4 * 4 + word / 4) * in_word + place % in_word;
}

// The weights as [group][tile of outputs][step][output][64 bytes of channels], a step as it will lie in shared memory.
template <class T, int columns, bool tf32, bool from_registers>
__global__ void __launch_bounds__(tile_threads)
    lay_out_weights(Convolution call, View<const T, 4> weight, unsigned tiles, int64_t most_steps, T* to) {
  const Runs<T> runs(call);
  const unsigned groups = static_cast<unsigned>(call.groups);
  const unsigned tile = blockIdx.x % tiles, group = blockIdx.x / tiles % groups;
  const unsigned part = blockIdx.x / tiles / groups, parts = gridDim.x / tiles / groups;
  constexpr int width = step_width<T>, chunks = width / chunk_width<T>;
  for (int index = 0; index < runs.count(group); ++index) {
    const Run run = runs(group, index);
    const int64_t inner = run.channel - int64_t{group} * runs.group_channels;
    const int64_t count = int64_t{run.slices(width)} * run.taps * columns * chunks;
    T* const of_run = to + ((int64_t{group} * tiles + tile) * most_steps + run.first_step) * columns * width;
    for (int64_t n = int64_t{part} * tile_threads + threadIdx.x; n < count; n += int64_t{parts} * tile_threads) {
      const int chunk = static_cast<int>(n % chunks), line = static_cast<int>(n / chunks % columns);
      const int step = static_cast<int>(n / (chunks * columns)), tap = run.tap + step % run.taps;
      const int first = step / run.taps * width, taps_x = static_cast<int>(call.taps_x);
      const int64_t o = int64_t{tile} * columns + line;
      const bool is_output = o < call.group_outputs();
      const T* const from =
          is_output ? &weight(group * call.group_outputs() + o, inner, tap / taps_x, tap % taps_x) : nullptr;
      Vector<T, chunk_width<T>> values;
#pragma unroll
      for (int k = 0; k < chunk_width<T>; ++k) {
        const int channel = first + channel_at<T, from_registers>(chunk * chunk_width<T> + k);
        values.item[k] = is_output && channel < run.channels ? from[channel * weight.stride[1]] : T(0.0f);
        if constexpr (tf32) values.item[k] = gpu::round_to_tf32(values.item[k]);
      }
      gpu::store_16_bytes(of_run + int64_t{step} * columns * width + StepTile<T, columns>::place(line, chunk),
                          bit_cast<Chunk>(values));
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
