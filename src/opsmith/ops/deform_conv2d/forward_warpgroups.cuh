// The forward's blocks on GPUs of compute capability 9.0, for types that go through the tensor cores: 128 positions of
// 256 outputs. A warp has 16 of the positions, which it samples into its registers, where the tensor cores take them,
// while they multiply the samples of the step before. So warps wait for nobody but the weights, which are copied to
// shared memory some steps ahead, and for pixels no longer than these take beyond a step.
#pragma once

#include "../_gpu/warpgroups.cuh"
#include "forward_tiles.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

constexpr int wide_threads = 256, wide_columns = 256;

// How a product finds a StepTile: its address, and that eight lines take 512 bytes, by 64 bytes a line, of which chunks
// of 16 are exchanged. An address in a line, by 16 bytes, may be added.
__device__ inline uint64_t tile_at(const void* tile) {
  constexpr uint64_t eight_lines = 8 * step_bytes / 16, exchanged_in_64_bytes = 2;
  return gpu::shared_address(tile) / 16 | uint64_t{1} << 16 | eight_lines << 32 | exchanged_in_64_bytes << 62;
}

// The weights of a block's next steps.
template <class T>
struct WeightRing {
  static constexpr int size = 5;

  StepTile<T, wide_columns> tile[size];
  gpu::Barrier filled[size], freed[size];

  // By one thread, before all others see the ring: the first steps are brought.
  __device__ void init(const T* weights, int steps) {
    for (int k = 0; k < size; ++k) {
      filled[k].init(1);
      freed[k].init(wide_threads / 32);
    }
    gpu::show_barriers();
    for (int step = 0; step < size && step < steps; ++step) bring(weights, step);
  }

  // By the same thread, when a warp has been done with `step` for one step: the one that takes its place is brought.
  __device__ void replace(const T* weights, int step, int steps) {
    if (step < 0 || step + size >= steps) return;
    freed[step % size].wait(step / size);
    bring(weights, step + size);
  }

 private:
  __device__ void bring(const T* weights, int step) {
    const T* const from = weights + int64_t{step} * wide_columns * step_width<T>;
    gpu::copy_bulk(tile[step % size].data, from, sizeof(tile[0]), filled[step % size]);
  }
};

// The sums of a thread, for each half of the outputs, and how its warp adds to them.
template <class T>
struct WarpgroupProduct {
  float sum[2][64] = {};

  // A step's samples of two positions, eight apart, by halves of their channels.
  using Factors = uint32_t[2][4];

  __device__ void start(const Factors& samples, const StepTile<T, wide_columns>& weights) {
    gpu::begin_products();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int outputs = 0; outputs < 2; ++outputs) {
        // A tile's chunks of 16 bytes are counted before they are exchanged.
        const uint64_t at = tile_at(weights.data + outputs * 128 * step_width<T>) + 2 * half;
        gpu::start_product<T>(sum[outputs], samples[half], at);
      }
    }
    gpu::end_products();
  }
};

// Samples a run at two positions, eight apart, of which a thread has 16 bytes of channels.
template <bool has_vectors, bool tf32, class T>
struct PairSampler {
  const Pixels<T>& pixels;
  const Run& run;
  const PointTable<T, product_rows>& table;

  // Where it is: the first position's point of a tap, and the thread's first channel there.
  struct Place {
    int tap, point, channel;
    const T* pixel;
  };

  __device__ Place start(int64_t n) const {
    const int lane = threadIdx.x % 32, channel = lane % 4 * chunk_width<T>;
    return {0, static_cast<int>(threadIdx.x / 32 * 16 + lane / 4), channel, pixels.at(n, 0, 0) + run.channel + channel};
  }

  __device__ void go_on(Place& place) const {
    place.point += product_rows;
    if (++place.tap < run.taps) return;
    place.tap = 0;
    place.point -= run.taps * product_rows;
    place.channel += step_width<T>;
    place.pixel += step_width<T>;
  }

  __device__ void load(const Place& place, Corners<T>& corners, int of_two) const {
    auto point = table.places[place.point + 8 * of_two];
    if (place.channel >= run.channels) point.corners = 0;
    corners.template load<has_vectors>(pixels, place.pixel, run.channels - place.channel, point);
  }

  __device__ void blend(const Place& place, const Corners<T>& corners, int of_two,
                        typename WarpgroupProduct<T>::Factors& factors) const {
    const int point = place.point + 8 * of_two;
    Chunk samples = corners.template blend<has_vectors, tf32>(table.weights[point], table.places[point].mask,
                                                              run.channels - place.channel);
    if (place.channel >= run.channels) samples = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      factors[half][of_two] = samples.item[2 * half];
      factors[half][of_two + 2] = samples.item[2 * half + 1];
    }
  }
};

// Adds the products of a run, whose first step is the `step`th of all `steps`.
template <bool has_vectors, bool tf32, class T>
__device__ void add_run(WarpgroupProduct<T>& product, const PairSampler<has_vectors, tf32, T>& sampler, int64_t n,
                        const T* weights, WeightRing<T>& ring, int step, int steps) {
  using Factors = typename WarpgroupProduct<T>::Factors;
  const int end = step + sampler.run.slices(step_width<T>) * sampler.run.taps;
  auto loaded = sampler.start(n);
  Corners<T> corners[2];
  Factors factors[2];
  // Samples the step that has been loaded, and loads the next one in its place, if it is before `end`: position by
  // position, so that pixels are on their way as long as they have registers.
  const auto sample = [&](Factors& to, bool has_next) {
    const auto sampled = loaded;
    sampler.go_on(loaded);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      sampler.blend(sampled, corners[k], k, to);
      if (has_next) sampler.load(loaded, corners[k], k);
    }
  };
#pragma unroll
  for (int k = 0; k < 2; ++k) sampler.load(loaded, corners[k], k);
  sample(factors[0], step + 1 < end);

  // Multiplies a step while the next one is sampled.
  const auto pass = [&](const Factors& now, Factors& next) {
    const int place = step % ring.size;
    ring.filled[place].wait(step / ring.size);
    product.start(now, ring.tile[place]);
    if (step + 1 < end) sample(next, step + 2 < end);
    if (threadIdx.x == 0) ring.replace(weights, step - 1, steps);
    gpu::wait_for_products();
    if (threadIdx.x % 32 == 0) ring.freed[place].arrive();
    ++step;
  };
  while (step + 1 < end) {
    pass(factors[0], factors[1]);
    pass(factors[1], factors[0]);
  }
  if (step < end) pass(factors[0], factors[1]);
}

// Stores the sums, with the bias, from the output `channel` and the position `first` on. Half of the outputs at a time
// goes through shared memory, so that what lies side by side in the result is written by 16 bytes: outputs, if
// `outputs_inside`, else positions.
template <bool outputs_inside, class T>
__device__ void store_wide(const WarpgroupProduct<T>& product, const Convolution& call, int64_t n, int first,
                           int64_t channel, int outputs, const View<const T, 1>& bias, const View<T, 4>& out,
                           WeightRing<T>& ring) {
  constexpr int side = wide_columns / 2, width = chunk_width<T>, chunks = side / width;
  static_assert(side == product_rows, "as many positions as outputs");
  // As long as makes the lanes of a warp write to different banks.
  constexpr int row = side + (outputs_inside ? 8 : 4);
  struct Room {
    alignas(16) float sums[side * row];
    float biases[wide_columns];
  };
  static_assert(sizeof(ring.tile) >= sizeof(Room), "half of the sums take the place of the weights");
  Room& room = *reinterpret_cast<Room*>(ring.tile);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, positions = static_cast<int>(call.positions());
  const auto at = [&](int position, int output) {
    const unsigned p = position, out_width = static_cast<unsigned>(call.out_width);
    return &out(n, channel + output, p / out_width, p % out_width);
  };
  const bool is_plane = out.stride[3] == 1 && (out.stride[2] == call.out_width || call.out_height == 1);
  const bool has_chunks =
      reinterpret_cast<uintptr_t>(at(0, 0)) % sizeof(Chunk) == 0 &&
      (outputs_inside ? out.stride[1] == 1 && out.stride[2] % width == 0 && out.stride[3] % width == 0
                      : is_plane && out.stride[1] % width == 0);
  __syncthreads();
  for (int k = threadIdx.x; k < wide_columns; k += wide_threads) {
    room.biases[k] = bias && k < outputs ? compute_t<T>(bias(channel + k)) : 0.0f;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (half * side >= outputs) break;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 64; ++k) {
      const int column = k / 4 * 8 + lane % 4 * 2 + k % 2, line = warp * 16 + lane / 4 + k / 2 % 2 * 8;
      room.sums[outputs_inside ? line * row + column : column * row + line] = product.sum[half][k];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < side * chunks; k += wide_threads) {
      const int outside = k / chunks, inside = k % chunks * width;
      const int output = half * side + (outputs_inside ? inside : outside);
      const int position = first + (outputs_inside ? outside : inside);
      if (output >= outputs || position >= positions) continue;
      float sums[width];
#pragma unroll
      for (int item = 0; item < width; ++item) {
        sums[item] = room.sums[outside * row + inside + item] + room.biases[output + (outputs_inside ? item : 0)];
      }
      const Chunk chunk = narrow<T, false>(sums);
      const int left = outputs_inside ? outputs - output : positions - position;
      if (has_chunks && left >= width) {
        gpu::store_16_bytes(at(position, output), chunk);
        continue;
      }
      const auto values = bit_cast<Vector<T, width>>(chunk);
#pragma unroll
      for (int item = 0; item < width; ++item) {
        if (item >= left) break;
        *(outputs_inside ? at(position, output + item) : at(position + item, output)) = values.item[item];
      }
    }
  }
}

// Shared memory of a block.
template <class T>
struct WideBlock {
  WeightRing<T> ring;
  PointTable<T, product_rows> table;
};

// Other GPUs' code has it for so few threads that nobody launches it: see convolve_by_warpgroups().
template <class T, bool tf32>
__global__ void __launch_bounds__(gpu::has_warpgroups ? wide_threads : 32)
    convolve_wide(Sampler<T> sampler, const T* weights, ForwardGrid grid, View<const T, 1> bias, View<T, 4> out) {
  if constexpr (gpu::has_warpgroups) {
    extern __shared__ __align__(512) unsigned char wide_shared[];
    auto& [ring, table] = *reinterpret_cast<WideBlock<T>*>(wide_shared);
    const Convolution& call = sampler.call;
    const unsigned tile = blockIdx.x % grid.across, group = blockIdx.x / grid.across % grid.groups;
    const unsigned place = blockIdx.x / grid.across / grid.groups, n = place / grid.tiles;
    const int first = static_cast<int>(place % grid.tiles) * product_rows;
    const Runs<T> runs(call);
    const int count = runs.count(group), steps = runs.steps(group);
    const T* const own =
        weights + (int64_t{group} * grid.across + tile) * grid.most_steps * wide_columns * step_width<T>;
    if (threadIdx.x == 0) ring.init(own, steps);
    WarpgroupProduct<T> product;
    for (int index = 0; index < count; ++index) {
      const Run run = runs(group, index);
      if (index > 0) __syncthreads();
      table.find(sampler, n, first, run);
      __syncthreads();
      if (sampler.pixels.has_vectors) {
        add_run(product, PairSampler<true, tf32, T>{sampler.pixels, run, table}, n, own, ring, run.first_step, steps);
      } else {
        add_run(product, PairSampler<false, tf32, T>{sampler.pixels, run, table}, n, own, ring, run.first_step, steps);
      }
    }
    const int64_t outputs = call.group_outputs(), left = outputs - int64_t{tile} * wide_columns;
    const int64_t channel = group * outputs + int64_t{tile} * wide_columns;
    const int count_of_outputs = static_cast<int>(left < wide_columns ? left : wide_columns);
    if (out.stride[1] == 1) {
      store_wide<true>(product, call, n, first, channel, count_of_outputs, bias, out, ring);
    } else {
      store_wide<false>(product, call, n, first, channel, count_of_outputs, bias, out, ring);
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
