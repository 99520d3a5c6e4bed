// How the wide blocks of the forward sample: 128 bytes of channels of a tap, for 128 positions, into shared memory,
// where products of warpgroups find them. The weights come beside them by bulk copies.
#pragma once

#include <opsmith/lanes.h>

#include "../_gpu/warpgroups.cuh"
#include "forward_tiles.cuh"
#include "position_tiles.cuh"
#include "split_floats.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Two warpgroups multiply while two sample.
constexpr int multiplying_threads = 256, wide_samplers = 256, wide_threads = multiplying_threads + wide_samplers;

// The samples of a stage: 128 bytes of channels of each position. Chunks of 16 bytes are exchanged within a line, so
// that those of eight lines next to each other are in different banks.
template <class T>
struct alignas(1024) WideSamples {
  static constexpr int line_bytes = 2 * step_bytes;

  T data[product_rows * 2 * step_width<T>];

  // Where a chunk of a line is, in bytes. Those of the same chunk 8 * n lines further are 8 * n * line_bytes further.
  static __device__ int place(int line, int chunk) { return line * line_bytes + (chunk ^ line % 8) * copy_bytes; }

  __device__ Chunk& at(int place) { return *reinterpret_cast<Chunk*>(reinterpret_cast<char*>(data) + place); }
};

// Shared memory of a block.
template <class T, bool split, int columns>
struct WideBlock {
  static constexpr int parts = split ? 2 : 1;  // of a number
  static constexpr int stages = split ? 2 : 3;
  static constexpr int step_size = parts * columns * step_width<T>;  // of the weights, in elements

  struct Stage {
    WideSamples<T> samples[parts];
    StepTile<T, columns> weights[2][parts];  // of each half of the channels
  };

  Stage stage[stages];
  WidePoints points;
  gpu::Barrier filled[stages], freed[stages];

  __device__ void init() {
    for (int k = 0; k < stages; ++k) {
      filled[k].init(wide_samplers / 32 * gpu::arriving_lanes + 1);
      freed[k].init(multiplying_threads / 32 * gpu::arriving_lanes);
    }
    gpu::show_shared_memory();
  }
};

// How many halves of a stage have channels of a run, the first of which is `channel`.
template <class T>
__device__ inline int halves_of(const Run& run, int channel) {
  return run.channels - channel > step_width<T> ? 2 : 1;
}

// A kilobyte more, which a block has for itself, and the first-level cache would have 32 KB less.
static_assert(sizeof(WideBlock<float, false, 256>) <= 163 << 10);

// How channels are read.
enum class Reads {
  all_vectors,  // by 16 bytes, of pixels that are all there
  vectors,      // by 16 bytes
  elements,     // one by one
};

// The four pixels around a point, of 16 bytes of channels, and where those channels are in the image's first pixels.
template <class T, Reads reads>
class WideCorners {
 public:
  // In elements; see WidePoint.
  static constexpr int unit = reads == Reads::elements ? 1 : chunk_width<T>;

  __device__ WideCorners(const Pixels<T>& pixels, const T* first) {
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      first_[corner] = first + corner / 2 * pixels.row + corner % 2 * pixels.column;
    }
  }

  __device__ void go_on(int channels) {
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) first_[corner] += channels;
  }

  // Loads those of a point, if there are `channels` from here on. Mostly all corners of a warp's points are there: then
  // there is nothing to set to zero.
  __device__ void load(const WidePoint& point, int channels, Chunk (&value)[4]) const {
    const int there = channels > 0 ? point.corners() : 0;
    if (reads == Reads::all_vectors || (reads == Reads::vectors && !any_lane(there != 15))) {
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
        value[corner] = reinterpret_cast<const Chunk*>(first_[corner])[point.at()];
      }
      return;
    }
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
      const bool is_there = there & 1 << corner;
      value[corner] = {};
      if constexpr (reads == Reads::vectors) {
        if (is_there) value[corner] = reinterpret_cast<const Chunk*>(first_[corner])[point.at()];
      } else {
        Vector<T, chunk_width<T>> elements = bit_cast<Vector<T, chunk_width<T>>>(value[corner]);
#pragma unroll
        for (int k = 0; k < chunk_width<T>; ++k) {
          if (is_there && k < channels) elements.item[k] = first_[corner][point.at() + k];
        }
        value[corner] = bit_cast<Chunk>(elements);
      }
    }
  }

 private:
  const T* first_[4];
};

// The samples of a point, of which those beyond the first `channels` are zero whatever the weights are; where vectors
// are read, that is left to correct_samples().
template <Reads reads, class T>
__device__ void blend_corners(const Chunk (&value)[4], const WidePoint& point, int channels,
                              float (&sum)[chunk_width<T>]) {
  float weights[4];
  point.weigh(weights);
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    float wide[chunk_width<T>];
    widen<T>(value[corner], wide);
#pragma unroll
    for (int k = 0; k < chunk_width<T>; ++k) {
      sum[k] = corner == 0 ? weights[0] * wide[k] : sum[k] + weights[corner] * wide[k];
      if (reads == Reads::elements && corner == 3 && k >= channels) sum[k] = 0.0f;
    }
  }
}

// Stores samples, as two numbers each if they are split.
template <bool split, class T, class Stage>
__device__ void store_samples(Stage& stage, int place, const float (&samples)[chunk_width<T>]) {
  if constexpr (split) {
    Chunk large, small;
#pragma unroll
    for (int k = 0; k < 4; ++k) split_float(bit_cast<uint32_t>(samples[k]), large.item[k], small.item[k]);
    stage.samples[0].at(place) = large;
    stage.samples[1].at(place) = small;
  } else {
    stage.samples[0].at(place) = narrow<T, std::is_same_v<T, float>>(samples);
  }
}

// Multiplies the samples that a thread has stored with a mask, and sets those beyond the first `channels` to zero.
template <bool split, class T, class Stage>
__device__ void correct_samples(Stage& stage, int place, float mask, int channels) {
  float samples[chunk_width<T>];
  widen<T>(stage.samples[0].at(place), samples);
  if constexpr (split) {
    float small[chunk_width<T>];
    widen<T>(stage.samples[1].at(place), small);
#pragma unroll
    for (int k = 0; k < chunk_width<T>; ++k) samples[k] += small[k];
  }
#pragma unroll
  for (int k = 0; k < chunk_width<T>; ++k) samples[k] = k < channels ? samples[k] * mask : 0.0f;
  store_samples<split, T>(stage, place, samples);
}

// Fills the stages of a run of a tile, whose points have been found. `weights` is where those of its first step are.
template <Reads reads, bool split, int columns, class T>
__device__ void fill_wide_stages(const Sampler<T>& sampler, int64_t n, const PositionTile& tile, const Run& run,
                                 bool has_odd_masks, const T* weights, WideBlock<T, split, columns>& block,
                                 Turn& turn) {
  using Block = WideBlock<T, split, columns>;
  using Tile = WideSamples<T>;
  // Eight threads sample a position, and each has as many positions as its loads can be under way together.
  constexpr int apart = wide_samplers / 8, at_once = reads == Reads::elements ? 1 : 2, slice = 2 * step_width<T>;
  constexpr int rounds = product_rows / apart / at_once;
  static_assert(apart % 8 == 0);
  const unsigned thread = threadIdx.x - multiplying_threads, chunk = thread % 8, row = thread / 8;
  const int own = Tile::place(row, chunk), first_channel = static_cast<int>(chunk) * chunk_width<T>;
  const WidePoint* const points = block.points.point + row;

  // What is loaded next: positions of a tap, and how many channels there are from the thread's first on.
  int next_round = 0, next_tap = 0, next_channels = run.channels - first_channel;
  WideCorners<T, reads> corners(sampler.pixels, sampler.pixels.at(n, 0, 0) + run.channel + first_channel);
  Chunk value[at_once][4];
  WidePoint point[at_once];
  const auto next_point = [&](int k) { return points[next_tap * product_rows + (next_round * at_once + k) * apart]; };
  const auto go_on = [&] {
    if (++next_round < rounds) return;
    next_round = 0;
    if (++next_tap < run.taps) return;
    next_tap = 0;
    next_channels -= slice;
    corners.go_on(slice);
  };
#pragma unroll
  for (int k = 0; k < at_once; ++k) {
    point[k] = next_point(k);
    corners.load(point[k], next_channels, value[k]);
  }

  for (int first = 0; first < run.channels; first += slice) {
    const int halves = halves_of<T>(run, first), channels = run.channels - first - first_channel;
    const bool is_partial = run.channels - first < slice;
    for (int tap = 0; tap < run.taps; ++tap) {
      auto& stage = block.stage[turn.stage];
      if (turn.round > 0) block.freed[turn.stage].wait(turn.round - 1);
      if (thread == 0) {
        constexpr int bytes = sizeof(stage.weights[0]);
        gpu::copy_bulk(stage.weights, weights, halves * bytes, block.filled[turn.stage]);
      }
      weights += halves * Block::step_size;
      const bool is_last = tap + 1 == run.taps && first + slice >= run.channels;
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        go_on();
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
          const int line = (round * at_once + k) * apart;
          const bool has_next = round + 1 < rounds || !is_last;
          const WidePoint following = has_next ? next_point(k) : WidePoint{};
          float samples[chunk_width<T>];
          blend_corners<reads, T>(value[k], point[k], channels, samples);
          if (has_next) corners.load(following, next_channels, value[k]);
          point[k] = following;
          store_samples<split, T>(stage, own + line * Tile::line_bytes, samples);
        }
      }
      if (has_odd_masks || is_partial) {
#pragma unroll 1
        for (int line = 0; line < product_rows; line += apart) {
          float mask = 1.0f;
          if (has_odd_masks) mask = WidePoints::left_mask(sampler, n, tile, run, tap, line + static_cast<int>(row));
          correct_samples<split, T>(stage, own + line * Tile::line_bytes, mask, channels);
        }
      }
      gpu::show_shared_memory();
      block.filled[turn.stage].warp_arrives();
      turn.go_on(Block::stages);
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
