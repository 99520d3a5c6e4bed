// How the wide blocks of the forward multiply: each of two warpgroups makes the sums of 64 positions and 128 or 256
// outputs, which its threads store from their registers.
//
// Floats that may not be rounded to TF32 come as two numbers that TF32 has (split_floats.cuh), and three of the four
// products of these are made: what is left out is less than a float's rounding. The tensor cores cut off what does not
// fit into a float, always towards zero. So their sums go on for one stage only, and the threads add up the stages.
#pragma once

#include <opsmith/lanes.h>

#include "wide_samples.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

template <class T, bool split, int columns>
struct WideProduct {
  using Block = WideBlock<T, split, columns>;
  static constexpr int across = columns / 128;
  static_assert(!split || across == 1, "there are no registers for more");

  // Of a thread: for each 128 outputs, two positions eight apart of two outputs of each eight.
  float sum[across][64] = {};

  // The bias of the outputs from `channel` on: a warp's lanes have 32 of them each time.
  float bias[across * 4];

  __device__ void load_bias(const View<const T, 1>& from, int64_t channel, int outputs) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < across * 4; ++k) {
      bias[k] = from && k * 32 + lane < outputs ? compute_t<T>(from(channel + k * 32 + lane)) : 0.0f;
    }
  }

  // Adds the products of a run's stages.
  __device__ void add(const Run& run, Block& block, Turn& turn) {
    for (int first = 0; first < run.channels; first += 2 * step_width<T>) {
      const int halves = halves_of<T>(run, first);
      for (int tap = 0; tap < run.taps; ++tap) {
        block.filled[turn.stage].wait(turn.round);
        gpu::begin_products();
        if (halves == 2) {
          start<2>(block.stage[turn.stage]);
        } else {
          start<1>(block.stage[turn.stage]);
        }
        // Meanwhile the tensor cores have products of the other warpgroup. A stage that is not given back at once keeps
        // the samplers waiting.
        gpu::wait_for_product_groups<0>();
        block.freed[turn.stage].warp_arrives();
        if constexpr (split) {
#pragma unroll
          for (int k = 0; k < 64; ++k) sum[0][k] += part_[k];
        }
        turn.go_on(Block::stages);
      }
    }
  }

 private:
  using Stage = typename Block::Stage;

  // Where the samples of the warpgroup are, and the weights of 128 outputs, to be multiplied by 32 bytes of channels.
  static __device__ uint64_t samples_at(const Stage& stage, int part, int half, int k) {
    const int line = threadIdx.x / 128 * 64;
    return gpu::tile_at<2 * step_bytes>(stage.samples[part].data + line * 2 * step_width<T>) + half * 4 + k * 2;
  }
  static __device__ uint64_t weights_at(const Stage& stage, int part, int half, int k, int output) {
    return gpu::tile_at<step_bytes>(stage.weights[half][part].data + output * step_width<T>) + k * 2;
  }

  template <int halves>
  __device__ void start(const Stage& stage) {
#pragma unroll
    for (int k = 0; k < 2 * halves; ++k) {
      const auto samples = [&](int part) { return samples_at(stage, part, k / 2, k % 2); };
      const auto weights = [&](int part, int output) { return weights_at(stage, part, k / 2, k % 2, output); };
      if constexpr (split) {
        gpu::start_product<T>(part_, samples(1), weights(0, 0), k > 0);
        gpu::start_product<T>(part_, samples(0), weights(1, 0), true);
        gpu::start_product<T>(part_, samples(0), weights(0, 0), true);
      } else {
#pragma unroll
        for (int j = 0; j < across; ++j) gpu::start_product<T>(sum[j], samples(0), weights(0, 128 * j), true);
      }
    }
    gpu::end_products();
  }

  float part_[split ? 64 : 1];  // of a stage
};

// What a thread stores at once.
enum class Stored {
  ones,       // numbers, each by itself
  outputs,    // two next to each other, of a position
  positions,  // two next to each other, of an output
};

// Stores the sums of a thread, with the bias, from the output `channel` on. What lanes side by side store are 8 outputs
// or 8 positions.
template <Stored stored, bool split, int columns, class T>
__device__ void store_wide(const WideProduct<T, split, columns>& product, const PositionTile& tile, int64_t n,
                           int64_t channel, int outputs, const View<T, 4>& out) {
  const int lane = threadIdx.x % 32, line = threadIdx.x / 32 * 16 + lane / 4;
  // Of two lanes that have the same two outputs of two positions, one stores the first output and one the second.
  const int of_two = stored == Stored::positions ? lane / 4 % 2 : 0, column = lane % 4 * 2, output = column + of_two;
  char* to[2];
  int left[2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const Position position = tile.at(line + 8 * k - of_two);
    to[k] = reinterpret_cast<char*>(&out(n, channel + output, position.i, position.j));
    left[k] = position.is_there ? outputs - output : 0;
  }
  const int64_t next = out.stride[1] * static_cast<int64_t>(sizeof(T));
#pragma unroll
  for (int j = 0; j < columns / 8; ++j) {
    float added[2];
#pragma unroll
    for (int item = 0; item < 2; ++item) added[item] = shuffle(product.bias[j / 4], j % 4 * 8 + column + item);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float* const sums = product.sum[j / 16] + j % 16 * 4 + 2 * k;
      const float own[2] = {sums[0] + added[0], sums[1] + added[1]};
      if constexpr (stored == Stored::ones) {
        if (j * 8 < left[k]) *reinterpret_cast<T*>(to[k]) = T(own[0]);
        if (j * 8 + 1 < left[k]) *reinterpret_cast<T*>(to[k] + next) = T(own[1]);
      } else if constexpr (stored == Stored::outputs) {
        if (j * 8 + 1 < left[k]) {
          *reinterpret_cast<Vector<T, 2>*>(to[k]) = rounded<T, 2>(own);
        } else if (j * 8 < left[k]) {
          *reinterpret_cast<T*>(to[k]) = T(own[0]);
        }
      } else {
        const float other = shuffle_xor(of_two ? own[0] : own[1], 4);
        const float both[2] = {of_two ? other : own[0], of_two ? own[1] : other};
        if (j * 8 < left[k]) *reinterpret_cast<Vector<T, 2>*>(to[k]) = rounded<T, 2>(both);
      }
      to[k] += 8 * next;
    }
  }
}

template <bool split, int columns, class T>
__device__ void store_wide(const WideProduct<T, split, columns>& product, const PositionTile& tile, int64_t n,
                           int64_t channel, int outputs, const View<T, 4>& out) {
  const Position first = tile.at(0);
  const bool is_even = reinterpret_cast<uintptr_t>(&out(n, channel, first.i, first.j)) % (2 * sizeof(T)) == 0;
  if (out.stride[1] == 1 && is_even && out.stride[2] % 2 == 0 && out.stride[3] % 2 == 0) {
    store_wide<Stored::outputs>(product, tile, n, channel, outputs, out);
  } else if (is_half<T> && is_even && out.stride[1] % 2 == 0 && tile.has_lines(out.stride[2], out.stride[3], 2)) {
    store_wide<Stored::positions>(product, tile, n, channel, outputs, out);
  } else {
    store_wide<Stored::ones>(product, tile, n, channel, outputs, out);
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
