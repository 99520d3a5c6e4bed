// The forward's blocks on GPUs of compute capability 9.0, for types that go through the tensor cores: 128 positions of
// 256 or 128 outputs. Two warpgroups sample, stage after stage, and two multiply the samples with the weights. No
// sample is ever in global memory.
//
// There are as many blocks as multiprocessors, and each makes some tiles, so that the samplers are at the next tile
// while the others still store the sums of the one before.
//
// What takes time is to sample: 256 outputs of float16 took 120 us on an H100, of which the tensor cores need 40. The
// sums take half of the registers, which leaves two sampling warps to a scheduler; it issues in four of ten cycles.
#pragma once

#include <opsmith/early_launch.h>

#include "wide_products.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// Where a tile of the output is. Those of one place and all outputs follow one another, so that they find the same
// pixels in the second-level cache.
struct WideTile {
  unsigned across, group;
  int64_t n;
  PositionTile positions;

  __device__ WideTile(const ForwardGrid& grid, const PositionTiles& tiles, unsigned index)
      : across(index % grid.across),
        group(index / grid.across % grid.groups),
        n(index / grid.across / grid.groups / grid.tiles),
        positions(tiles.tile(index / grid.across / grid.groups % grid.tiles)) {}
};

// Other GPUs' code has it for so few threads that nobody launches it: see convolve_by_warpgroups().
template <class T, bool split, int columns>
__global__ void __launch_bounds__(gpu::has_warpgroups ? wide_threads : 32, 1)
    convolve_wide(Sampler<T> sampler, const T* weights, ForwardGrid grid, PositionTiles tiles, unsigned count,
                  View<const T, 1> bias, View<T, 4> out) {
  if constexpr (gpu::has_warpgroups) {
    using Block = WideBlock<T, split, columns>;
    extern __shared__ __align__(1024) unsigned char wide_shared[];
    auto& block = *reinterpret_cast<Block*>(wide_shared);
    if (threadIdx.x == 0) block.init();
    __syncthreads();
    const Runs<T> runs(sampler.call);
    Turn turn;
    if (threadIdx.x >= multiplying_threads) {
      gpu::give_registers<96>();
      for (unsigned index = blockIdx.x; index < count; index += gridDim.x) {
        const WideTile tile(grid, tiles, index);
        const T* const own =
            weights + (int64_t{tile.group} * grid.across + tile.across) * grid.most_steps * Block::step_size;
        for (int k = 0; k < runs.count(tile.group); ++k) {
          const Run run = runs(tile.group, k);
          const T* const of_run = own + int64_t{run.first_step} * Block::step_size;
          const auto fill = [&](auto reads) {
            constexpr int unit = WideCorners<T, reads.value>::unit;
            const int thread = threadIdx.x - multiplying_threads;
            const bool has_odd_masks = block.points.find(sampler, tile.n, tile.positions, run, thread, unit);
            if (index == blockIdx.x && k == 0) wait_for_earlier_kernels();
            fill_wide_stages<reads.value>(sampler, tile.n, tile.positions, run, has_odd_masks, of_run, block, turn);
          };
          if (sampler.pixels.has_margin) {
            fill(std::integral_constant<Reads, Reads::all_vectors>{});
          } else if (sampler.pixels.has_vectors) {
            fill(std::integral_constant<Reads, Reads::vectors>{});
          } else {
            fill(std::integral_constant<Reads, Reads::elements>{});
          }
        }
      }
    } else {
      gpu::take_registers<160>();
      for (unsigned index = blockIdx.x; index < count; index += gridDim.x) {
        const WideTile tile(grid, tiles, index);
        const int64_t outputs = sampler.call.group_outputs(), first = int64_t{tile.across} * columns;
        const int64_t channel = tile.group * outputs + first;
        const int left = static_cast<int>(outputs - first < columns ? outputs - first : columns);
        WideProduct<T, split, columns> product;
        product.load_bias(bias, channel, left);
        for (int k = 0; k < runs.count(tile.group); ++k) product.add(runs(tile.group, k), block, turn);
        if (index == blockIdx.x) wait_for_earlier_kernels();
        store_wide(product, tile.positions, tile.n, channel, left, out);
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
