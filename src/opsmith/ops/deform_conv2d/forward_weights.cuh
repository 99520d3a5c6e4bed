// The weights as the forward's blocks on a GPU take them, step after step.
#pragma once

#include <opsmith/early_launch.h>

#include "split_floats.cuh"
#include "step_product.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// How a block of the forward takes the weights: by how many outputs, in which order of the steps of a run, and whether
// floats are rounded to TF32 or split into two numbers that TF32 has, one after the other in a step.
template <int outputs, bool pairs_slices, bool tf32, bool split>
struct WeightOrder {
  static constexpr int columns = outputs, parts = split ? 2 : 1;
  static constexpr bool rounds = tf32, splits = split;

  // The tap and the slice of 64 bytes of channels of a run's step. Slices come one after the other or, to be sampled
  // 128 bytes at once, two by two.
  static __device__ void find(const Run& run, int slices, int step, int& tap, int& slice) {
    const int paired = pairs_slices ? slices / 2 * 2 * run.taps : 0;
    if (step < paired) {
      tap = step % (2 * run.taps) / 2;
      slice = step / (2 * run.taps) * 2 + step % 2;
    } else {
      tap = (step - paired) % run.taps;
      slice = (step - paired) / run.taps + (pairs_slices ? slices / 2 * 2 : 0);
    }
  }
};

// Writes the weights as [group][tile of outputs][step][part][output][64 bytes of channels], a step as it will lie in
// shared memory.
template <class T, class Order>
struct WeightLayout {
  static constexpr int columns = Order::columns, width = step_width<T>, chunks = width / chunk_width<T>;
  static constexpr int step_size = columns * width * Order::parts;

  Convolution call;
  View<const T, 4> weight;
  T* to;
  unsigned tiles, parts, blocks;  // a tile is shared out among `parts` blocks
  int most_steps;

  WeightLayout(const Convolution& given, const View<const T, 4>& from, unsigned across, int steps, T* room)
      : call(given), weight(from), to(room), tiles(across), most_steps(steps) {
    parts = blocks_for(int64_t{most_steps} * columns * width, chunk_width<T> * tile_threads);
    blocks = grid_of(given.groups * tiles * parts);
  }

  __device__ void lay_out(unsigned block) const;
};

template <class T, class Order>
__device__ void WeightLayout<T, Order>::lay_out(unsigned block) const {
  const Runs<T> runs(call);
  const unsigned groups = static_cast<unsigned>(call.groups);
  const unsigned tile = block % tiles, group = block / tiles % groups, part = block / tiles / groups;
  for (int index = 0; index < runs.count(group); ++index) {
    const Run run = runs(group, index);
    const int64_t inner = run.channel - int64_t{group} * runs.group_channels;
    const int64_t count = int64_t{run.slices(width)} * run.taps * columns * chunks;
    T* const of_run = to + ((int64_t{group} * tiles + tile) * most_steps + run.first_step) * step_size;
    for (int64_t n = int64_t{part} * tile_threads + threadIdx.x; n < count; n += int64_t{parts} * tile_threads) {
      const int chunk = static_cast<int>(n % chunks), line = static_cast<int>(n / chunks % columns);
      const int step = static_cast<int>(n / (chunks * columns)), taps_x = static_cast<int>(call.taps_x);
      int tap, slice;
      Order::find(run, run.slices(width), step, tap, slice);
      tap += run.tap;
      const int64_t o = int64_t{tile} * columns + line;
      const bool is_output = o < call.group_outputs();
      const T* const from =
          is_output ? &weight(group * call.group_outputs() + o, inner, tap / taps_x, tap % taps_x) : nullptr;
      Vector<T, chunk_width<T>> values;
#pragma unroll
      for (int k = 0; k < chunk_width<T>; ++k) {
        const int channel = slice * width + chunk * chunk_width<T> + k;
        values.item[k] = is_output && channel < run.channels ? from[channel * weight.stride[1]] : T(0.0f);
        if constexpr (Order::rounds) values.item[k] = gpu::round_to_tf32(values.item[k]);
      }
      T* const place = of_run + int64_t{step} * step_size + StepTile<T, columns>::place(line, chunk);
      Chunk bits = bit_cast<Chunk>(values);
      if constexpr (Order::splits) {
        Chunk small;
#pragma unroll
        for (int k = 0; k < 4; ++k) split_float(bits.item[k], bits.item[k], small.item[k]);
        gpu::store_16_bytes(place + columns * width, small);
      }
      gpu::store_16_bytes(place, bits);
    }
  }
}

// Both at once: what the blocks of the forward read, besides offsets and masks. Those come up meanwhile.
template <class T, class Order>
__global__ void __launch_bounds__(tile_threads) prepare(PixelTurn<T> pixels, WeightLayout<T, Order> weights) {
  let_next_kernel_come_up();
  if (blockIdx.x < pixels.blocks) {
    pixels.run(blockIdx.x);
  } else {
    weights.lay_out(blockIdx.x - pixels.blocks);
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
