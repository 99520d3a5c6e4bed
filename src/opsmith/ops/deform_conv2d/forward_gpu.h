// The forward on a GPU: an implicit product. A block makes 128 positions of up to 256 outputs. Four of its warps sample
// 64 bytes of channels of a tap into shared memory, step after step, and eight multiply them with the weights there. No
// sample is ever in global memory.
#pragma once

#include "gpu_points.h"
#include "step_product.h"

namespace {

constexpr int sampling_threads = 128;
constexpr int block_threads = product_threads + sampling_threads;
constexpr int most_stages = 4;

// Outputs of the widest blocks, which sample least. Doubles have not the registers for wide ones, and AMD's GPUs not
// the shared memory.
#if defined(__HIPCC__)
template <class T>
constexpr int most_columns = 64;
#else
template <class T>
constexpr int most_columns = sizeof(T) == 8 ? 64 : 256;
#endif

// The weights as [group][tile of outputs][step][output][64 bytes of channels], a step as it will lie in shared memory.
template <class T, int columns, bool tf32>
__global__ void __launch_bounds__(tile_threads)
    lay_out_weights(Convolution call, View<const T, 4> weight, unsigned tiles, int64_t most_steps, T* to) {
  const Runs<T> runs(call);
  const unsigned groups = static_cast<unsigned>(call.groups);
  const unsigned tile = blockIdx.x % tiles, group = blockIdx.x / tiles % groups;
  const unsigned part = blockIdx.x / tiles / groups, parts = gridDim.x / tiles / groups;
  constexpr int width = step_width<T>;
  for (int index = 0; index < runs.count(group); ++index) {
    const Run run = runs(group, index);
    const int64_t inner = run.channel - int64_t{group} * runs.group_channels;
    const int64_t count = int64_t{run.slices(width)} * run.taps * columns * width;
    T* const of_run = to + ((int64_t{group} * tiles + tile) * most_steps + run.first_step) * columns * width;
    for (int64_t n = int64_t{part} * tile_threads + threadIdx.x; n < count; n += int64_t{parts} * tile_threads) {
      const int line = static_cast<int>(n / width % columns), place = static_cast<int>(n % width);
      const int step = static_cast<int>(n / (width * columns)), tap = run.tap + step % run.taps;
      const int channel = step / run.taps * width + place, taps_x = static_cast<int>(call.taps_x);
      const int64_t o = int64_t{tile} * columns + line;
      T value = o < call.group_outputs() && channel < run.channels
                    ? weight(group * call.group_outputs() + o, inner + channel, tap / taps_x, tap % taps_x)
                    : T(0.0f);
      if constexpr (tf32) value = round_to_tf32(value);
      of_run[int64_t{step} * columns * width + StepTile<T, columns>::place(line, place / chunk_width<T>) +
             place % chunk_width<T>] = value;
    }
  }
}

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
  int most_steps, stages;
};

template <class T, int columns, bool tf32>
__global__ void __launch_bounds__(block_threads, (blocks_together<T, columns>))
    convolve_tiles(Sampler<T> sampler, const T* weights, ForwardGrid grid, View<const T, 1> bias, View<T, 4> out) {
  extern __shared__ __align__(128) unsigned char shared[];
  auto* const stage = reinterpret_cast<Stage<T, columns>*>(shared);
  auto& table = *reinterpret_cast<PointTable<T, product_rows>*>(stage + grid.stages);
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
        fill_stages<true, tf32>(sampler.pixels, n, run, from, table, stage, grid.stages, filled, step);
      } else {
        fill_stages<false, tf32>(sampler.pixels, n, run, from, table, stage, grid.stages, filled, step);
      }
      __syncthreads();
    }
    return;
  }
  StepProduct<T, columns, tf32> product(threadIdx.x);
  const int last_freed = runs.steps(group) - grid.stages;  // stages are filled again after the steps before this one
  for (int index = 0; index < count; ++index) {
    const Run run = runs(group, index);
    table.find(sampler, n, first, run);
    __syncthreads();
    for (const int end = step + run.slices(step_width<T>) * run.taps; step < end; ++step) {
      Handover::wait_until_filled(filled);
      product.add(stage[filled].samples, stage[filled].weights);
      if (step < last_freed) Handover::give_back(filled);
      filled = filled + 1 < grid.stages ? filled + 1 : 0;
    }
    __syncthreads();
  }
  const int64_t outputs = call.group_outputs(), left = outputs - int64_t{tile} * columns;
  store_sums(product, call, n, first, group * outputs + int64_t{tile} * columns,
             static_cast<int>(left < columns ? left : columns), bias, out, shared);
}

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
constexpr int64_t least_shared_bytes = sizeof(PointTable<T, product_rows>) + 2 * sizeof(Stage<T, columns>);

template <class T, int columns, bool tf32>
void convolve_by(const Device& device, const Sampler<T>& sampler, const View<const T, 4>& weight,
                 const View<const T, 1>& bias, const View<T, 4>& out, Stream stream) {
  const Convolution& call = sampler.call;
  const Runs<T> runs(call);
  // As many as the steps of a group, of which each offset group may add one that is not full.
  const int64_t segments = call.channels > 0 ? call.group_channels() / call.offset_group_channels() + 2 : 0;
  if ((divide_up(call.group_channels(), step_width<T>) + segments) * call.taps() >= int64_t{1} << 31) {
    fail("deform_conv2d() on a GPU sums up fewer than 2^31 times 64 bytes of a group's channels and taps");
  }
  int64_t most_steps = 0;
  for (int64_t group = 0; group < call.groups; ++group) {
    const int64_t steps = runs.steps(static_cast<int>(group));
    if (steps > most_steps) most_steps = steps;
  }
  const int64_t across = divide_up(call.group_outputs(), columns), down = divide_up(call.positions(), product_rows);
  const int64_t tiles = call.groups * across, step = columns * step_width<T>;
  const unsigned blocks = grid_of(call.images * tiles * down);
  const Workspace<T> weights(most_steps > 0 ? tiles * most_steps * step : 1);
  lay_out_weights<T, columns, tf32>
      <<<grid_of(tiles * blocks_for(most_steps * step, 4 * tile_threads)), tile_threads, 0, stream>>>(
          call, weight, static_cast<unsigned>(across), most_steps, weights.data);
  constexpr int64_t of_stage = sizeof(Stage<T, columns>), of_table = sizeof(PointTable<T, product_rows>);
  // A block has a kilobyte more for itself.
  int64_t stages = ((device.shared_bytes + 1024) / blocks_together<T, columns> - 1024 - of_table) / of_stage;
  stages = stages > most_stages ? most_stages : stages < 2 ? 2 : stages;
  const auto kernel = convolve_tiles<T, columns, tf32>;
  const int64_t bytes = stages * of_stage + of_table;
#if !defined(__HIPCC__)
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
#endif
  const ForwardGrid grid{static_cast<unsigned>(across), static_cast<unsigned>(call.groups), static_cast<unsigned>(down),
                         static_cast<int>(most_steps), static_cast<int>(stages)};
  kernel<<<blocks, block_threads, bytes, stream>>>(sampler, weights.data, grid, bias, out);
}

template <class T>
void convolve(const Convolution& call, const View<const T, 4>& input, const View<const T, 4>& offset,
              const View<const T, 4>& weight, const View<const T, 1>& bias, const View<const T, 4>& mask, bool tf32,
              const View<T, 4>& out, Stream stream) {
  const bool has_chunks =
      call.group_channels() % chunk_width<T> == 0 && call.offset_group_channels() % chunk_width<T> == 0;
  const int64_t copied = copy_size(input);
  const Workspace<T> room(copied > 0 ? copied : 1);
  const Sampler<T> sampler{call, pixels_of(input, has_chunks, copied > 0 ? room.data : nullptr, stream), offset, mask};
  const Device device;
  // Wide blocks sample less, but there are fewer of them: not where they would leave half of the GPU idle.
  const int64_t wide_blocks = call.images * call.groups * divide_up(call.group_outputs(), most_columns<T>) *
                              divide_up(call.positions(), product_rows);
  const bool is_wide = call.group_outputs() > 128 && wide_blocks >= device.multiprocessors / 2 &&
                       device.shared_bytes >= least_shared_bytes<T, most_columns<T>>;
  with_tf32<T>(tf32, [&](auto rounded) {
    if (is_wide) {
      convolve_by<T, most_columns<T>, rounded.value>(device, sampler, weight, bias, out, stream);
    } else {
      convolve_by<T, 64, rounded.value>(device, sampler, weight, bias, out, stream);
    }
  });
}

}  // namespace
