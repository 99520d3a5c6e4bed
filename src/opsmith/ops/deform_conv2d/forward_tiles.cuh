// The forward's blocks on any GPU: an implicit product. Four warps sample 64 bytes of channels of a tap into shared
// memory, step after step, and eight multiply them with the weights there. No sample is ever in global memory.
#pragma once

#include "../_gpu/async_copy.cuh"
#include "../_gpu/barriers.cuh"
#include "step_product.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

constexpr int sampling_threads = 128;
constexpr int block_threads = product_threads + sampling_threads;
constexpr int most_stages = 4;

// Narrow blocks are two to a multiprocessor, so that one samples where the other waits.
template <class T, int columns>
constexpr int blocks_together = columns == 256 || sizeof(T) == 8 ? 1 : 2;

template <class T, int columns>
struct Stage {
  StepTile<T, product_rows> samples;
  StepTile<T, columns> weights;
};

// Which stage is next: stages come round after round.
struct Turn {
  int stage = 0, round = 0;

  __device__ void go_on(int stages) {
    if (++stage < stages) return;
    stage = 0;
    ++round;
  }
};

// How stages, and the table of a run's points, pass from those who fill them to those who use them and back. Without
// such barriers all threads wait for one another at each step.
struct Handover {
  gpu::Barrier found, read, filled[most_stages], freed[most_stages];

  __device__ void init() {
    constexpr int all = block_threads / 32 * gpu::arriving_lanes,
                  samplers = sampling_threads / 32 * gpu::arriving_lanes;
    found.init(all);
    read.init(samplers);
    for (int stage = 0; stage < most_stages; ++stage) {
      filled[stage].init(samplers);
      freed[stage].init(all - samplers);
    }
  }

  // All threads find the points of a run, the `index`th, when those of the one before have been read. Only who
  // `samples` waits for all of them.
  template <class F>
  __device__ void find_points(int index, bool samples, const F& find) {
    if constexpr (gpu::has_tensor_cores) {
      if (index > 0) read.wait(index - 1);
      find();
      found.warp_arrives();
      if (samples) found.wait(index);
    } else {
      __syncthreads();
      find();
      __syncthreads();
    }
  }
  __device__ void points_are_read() { read.warp_arrives(); }

  __device__ void wait_until_free(const Turn& turn) {
    if (turn.round > 0) freed[turn.stage].wait(turn.round - 1);
  }
  __device__ void hand_over(const Turn& turn) {
    if constexpr (gpu::has_tensor_cores) {
      filled[turn.stage].warp_arrives();
    } else {
      __syncthreads();
    }
  }
  __device__ void wait_until_filled(const Turn& turn) {
    if constexpr (gpu::has_tensor_cores) {
      filled[turn.stage].wait(turn.round);
    } else {
      __syncthreads();
    }
  }
  __device__ void give_back(const Turn& turn) { freed[turn.stage].warp_arrives(); }
};

// What a block has in shared memory behind its stages.
template <class T>
struct BlockRoom {
  PointTable<T, product_rows> table;
  Handover handover;
};

// Fills the stages of a run. `weights` is where the run's begin.
template <bool has_vectors, bool tf32, class T, int columns>
__device__ void fill_stages(const Pixels<T>& pixels, int64_t n, const Run& run, const T* weights, BlockRoom<T>& room,
                            Stage<T, columns>* stage, int stages, Turn& turn) {
  // Four threads sample a position, and each has as many positions as its loads can be under way together.
  constexpr int apart = sampling_threads / 4, rows = has_vectors ? product_rows / apart : 1;
  const int thread = threadIdx.x - product_threads, chunk = thread % 4, row = thread / 4;
  for (int channel = chunk * chunk_width<T>; channel < run.slices(step_width<T>) * step_width<T>;
       channel += step_width<T>) {
    const T* const pixel = pixels.at(n, 0, 0) + run.channel + channel;
    for (int tap = 0; tap < run.taps; ++tap) {
      room.handover.wait_until_free(turn);
      Stage<T, columns>& to = stage[turn.stage];
#pragma unroll
      for (int k = 0; k < columns * 4 / sampling_threads; ++k) {
        const int place = (k * sampling_threads + thread) * chunk_width<T>;
        gpu::copy_async(to.weights.data + place, weights + place, true);
      }
      gpu::commit_copies();
      weights += columns * step_width<T>;
      for (int first = row; first < product_rows; first += rows * apart) {
        const int point = tap * product_rows + first;
        const auto store = [&](int k, const Chunk& samples) {
          *reinterpret_cast<Chunk*>(to.samples.data + to.samples.place(first + k * apart, chunk)) = samples;
        };
        if (channel >= run.channels) {
          for (int k = 0; k < rows; ++k) store(k, {});
          continue;
        }
        Corners<T> corners[rows];
#pragma unroll
        for (int k = 0; k < rows; ++k) {
          corners[k].template load<has_vectors>(pixels, pixel, run.channels - channel,
                                                room.table.places[point + k * apart]);
        }
#pragma unroll
        for (int k = 0; k < rows; ++k) {
          const int of_row = point + k * apart;
          store(k, corners[k].template blend<has_vectors, tf32>(
                       room.table.weights[of_row], room.table.places[of_row].mask, run.channels - channel));
        }
      }
      gpu::wait_for_copy_groups<0>();
      room.handover.hand_over(turn);
      turn.go_on(stages);
    }
  }
}

// Stores the sums of a warp, with the bias, from the output `channel` and the position `first` on. They go through
// shared memory, eight outputs at a time, so that positions next to each other are written by lanes next to each other.
template <class T, int columns, bool tf32>
__device__ void store_sums(const StepProduct<T, columns, tf32>& product, const Convolution& call, int64_t n, int first,
                           int64_t channel, int outputs, const View<const T, 1>& bias, const View<T, 4>& out,
                           void* shared) {
  using C = compute_t<T>;
  using Product = StepProduct<T, columns, tf32>;
  // As long as makes the lanes of a warp write to different banks.
  constexpr int row = Product::warp_rows + 4, parts = Product::warp_rows / 32;
  struct Room {
    C sums[8 * row], biases[Product::warp_columns];
  };
  static_assert(sizeof(Stage<T, columns>) * 2 >= sizeof(Room) * 8, "sums fit into two stages");
  Room& room = static_cast<Room*>(shared)[threadIdx.x / 32];
  const int lane = threadIdx.x % 32, left = outputs - product.first_column();
  channel += product.first_column();
  gpu::meet_threads<product_threads>();  // all have multiplied what is in the stages
  for (int column = lane; column < Product::warp_columns; column += 32) {
    room.biases[column] = bias && column < left ? C(bias(channel + column)) : C(0);
  }
  const unsigned width = static_cast<unsigned>(call.out_width);
  T* to[parts];
  bool is_there[parts];
#pragma unroll
  for (int k = 0; k < parts; ++k) {
    const unsigned position = first + product.first_row() + 32 * k + lane;
    is_there[k] = position < call.positions();
    to[k] = &out(n, channel, position / width, position % width);
  }
#pragma unroll
  for (int eight = 0; eight < Product::warp_columns; eight += 8) {
    gpu::meet_threads<product_threads>();
    product.for_eight_columns(eight / 8, [&](int line, int column, C sum) { room.sums[column * row + line] = sum; });
    gpu::meet_threads<product_threads>();
#pragma unroll
    for (int column = 0; column < 8; ++column) {
      const C added = room.biases[eight + column];
#pragma unroll
      for (int k = 0; k < parts; ++k) {
        if (is_there[k] && eight + column < left) *to[k] = T(room.sums[column * row + 32 * k + lane] + added);
        to[k] += out.stride[1];
      }
    }
  }
}

// Which tile a block makes: those of one place and all outputs follow one another, so that they find the same pixels in
// the second-level cache.
struct ForwardGrid {
  unsigned across, groups, tiles;  // tiles along the outputs of a group, and along the positions of an image
  int most_steps;                  // of a group's weights
};

template <class T, int columns, bool tf32>
__global__ void __launch_bounds__(block_threads, (blocks_together<T, columns>))
    convolve_tiles(Sampler<T> sampler, const T* weights, ForwardGrid grid, int stages, View<const T, 1> bias,
                   View<T, 4> out) {
  extern __shared__ __align__(128) unsigned char shared[];
  auto* const stage = reinterpret_cast<Stage<T, columns>*>(shared);
  auto& room = *reinterpret_cast<BlockRoom<T>*>(stage + stages);
  Handover& handover = room.handover;
  if (threadIdx.x == 0) handover.init();
  __syncthreads();
  const Convolution& call = sampler.call;
  const unsigned tile = blockIdx.x % grid.across, group = blockIdx.x / grid.across % grid.groups;
  const unsigned place = blockIdx.x / grid.across / grid.groups, n = place / grid.tiles;
  const int first = static_cast<int>(place % grid.tiles) * product_rows;
  const Runs<T> runs(call);
  const int count = runs.count(group);
  Turn turn;

  if (threadIdx.x >= product_threads) {
    const T* const own = weights + (int64_t{group} * grid.across + tile) * grid.most_steps * columns * step_width<T>;
    for (int index = 0; index < count; ++index) {
      const Run run = runs(group, index);
      const T* const from = own + int64_t{run.first_step} * columns * step_width<T>;
      handover.find_points(index, true, [&] { room.table.find(sampler, n, first, run); });
      if (sampler.pixels.has_vectors) {
        fill_stages<true, tf32>(sampler.pixels, n, run, from, room, stage, stages, turn);
      } else {
        fill_stages<false, tf32>(sampler.pixels, n, run, from, room, stage, stages, turn);
      }
      handover.points_are_read();
    }
    return;
  }
  StepProduct<T, columns, tf32> product(threadIdx.x);
  for (int index = 0; index < count; ++index) {
    const Run run = runs(group, index);
    handover.find_points(index, false, [&] { room.table.find(sampler, n, first, run); });
    for (int steps = run.slices(step_width<T>) * run.taps; steps > 0; --steps) {
      handover.wait_until_filled(turn);
      product.add(stage[turn.stage].samples, stage[turn.stage].weights);
      handover.give_back(turn);
      turn.go_on(stages);
    }
  }
  const int64_t outputs = call.group_outputs(), left = outputs - int64_t{tile} * columns;
  store_sums(product, call, n, first, group * outputs + int64_t{tile} * columns,
             static_cast<int>(left < columns ? left : columns), bias, out, shared);
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
