// The forward's blocks on any GPU: an implicit product. Four warps sample 64 bytes of channels of a tap into shared
// memory, step after step, and eight multiply them with the weights there. No sample is ever in global memory.
#pragma once

#include "step_product.h"

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

// How stages pass from those who sample to those who multiply and back. Without named barriers all threads wait for one
// another at each step.
struct Handover {
  __device__ static void wait_until_free(int stage) { wait_at<block_threads>(1 + most_stages + stage); }
  __device__ static void give_back(int stage) { pass<block_threads>(1 + most_stages + stage); }
  __device__ static void hand_over(int stage) {
    if constexpr (has_tensor_cores) {
      pass<block_threads>(1 + stage);
    } else {
      __syncthreads();
    }
  }
  __device__ static void wait_until_filled(int stage) {
    if constexpr (has_tensor_cores) {
      wait_at<block_threads>(1 + stage);
    } else {
      __syncthreads();
    }
  }
  __device__ static void wait_for_products() {
    if constexpr (has_tensor_cores) {
      wait_at<product_threads>(1 + 2 * most_stages);
    } else {
      __syncthreads();
    }
  }
};

// Fills the stages of a run, `filled` being the next one and `step` the number of those before. `weights` is where the
// run's begin.
template <bool has_vectors, bool tf32, class T, int columns>
__device__ void fill_stages(const Pixels<T>& pixels, int64_t n, const Run& run, const T* weights,
                            const PointTable<T, product_rows>& table, Stage<T, columns>* stage, int stages, int& filled,
                            int& step) {
  // Four threads sample a position, and each has as many positions as its loads can be under way together.
  constexpr int apart = sampling_threads / 4, rows = has_vectors ? product_rows / apart : 1;
  const int thread = threadIdx.x - product_threads, chunk = thread % 4, row = thread / 4;
  for (int channel = chunk * chunk_width<T>; channel < run.slices(step_width<T>) * step_width<T>;
       channel += step_width<T>) {
    const T* const pixel = pixels.at(n, 0, 0) + run.channel + channel;
    for (int tap = 0; tap < run.taps; ++tap, ++step) {
      if (step >= stages) Handover::wait_until_free(filled);
      Stage<T, columns>& to = stage[filled];
#pragma unroll
      for (int k = 0; k < columns * 4 / sampling_threads; ++k) {
        const int place = (k * sampling_threads + thread) * chunk_width<T>;
        copy_async(to.weights.data + place, weights + place, true);
      }
      commit_copies();
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
          corners[k].template load<has_vectors>(pixels, pixel, run.channels - channel, table.places[point + k * apart]);
        }
#pragma unroll
        for (int k = 0; k < rows; ++k) {
          const int of_row = point + k * apart;
          store(k, corners[k].template blend<tf32>(table.weights[of_row], table.places[of_row].mask));
        }
      }
      wait_for_copies<0>();
      Handover::hand_over(filled);
      filled = filled + 1 < stages ? filled + 1 : 0;
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
    Handover::wait_for_products();
    product.for_eight_columns(eight / 8, [&](int line, int column, C sum) { room.sums[column * row + line] = sum; });
    Handover::wait_for_products();
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
  auto& table = *reinterpret_cast<PointTable<T, product_rows>*>(stage + stages);
  const Convolution& call = sampler.call;
  const unsigned tile = blockIdx.x % grid.across, group = blockIdx.x / grid.across % grid.groups;
  const unsigned place = blockIdx.x / grid.across / grid.groups, n = place / grid.tiles;
  const int first = static_cast<int>(place % grid.tiles) * product_rows;
  const Runs<T> runs(call);
  const int count = runs.count(group);
  int filled = 0, step = 0;  // the stage that is next, and the steps before

  if (threadIdx.x >= product_threads) {
    const T* const own = weights + (int64_t{group} * grid.across + tile) * grid.most_steps * columns * step_width<T>;
    for (int index = 0; index < count; ++index) {
      const Run run = runs(group, index);
      const T* const from = own + int64_t{run.first_step} * columns * step_width<T>;
      table.find(sampler, n, first, run);
      __syncthreads();
      if (sampler.pixels.has_vectors) {
        fill_stages<true, tf32>(sampler.pixels, n, run, from, table, stage, stages, filled, step);
      } else {
        fill_stages<false, tf32>(sampler.pixels, n, run, from, table, stage, stages, filled, step);
      }
      __syncthreads();
    }
    return;
  }
  StepProduct<T, columns, tf32> product(threadIdx.x);
  const int last_freed = runs.steps(group) - stages;  // stages are filled again after the steps before this one
  for (int index = 0; index < count; ++index) {
    const Run run = runs(group, index);
    table.find(sampler, n, first, run);
    __syncthreads();
    for (const int end = step + run.slices(step_width<T>) * run.taps; step < end; ++step) {
      Handover::wait_until_filled(filled);
      product.add(stage[filled].samples, stage[filled].weights);
      if (step < last_freed) Handover::give_back(filled);
      filled = filled + 1 < stages ? filled + 1 : 0;
    }
    __syncthreads();
  }
  const int64_t outputs = call.group_outputs(), left = outputs - int64_t{tile} * columns;
  store_sums(product, call, n, first, group * outputs + int64_t{tile} * columns,
             static_cast<int>(left < columns ? left : columns), bias, out, shared);
}

}  // namespace
