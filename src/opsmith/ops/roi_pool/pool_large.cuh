// roi_pool on a GPU, for calls with many pixels in their boxes: bins are made of the maxima of squares of pixels.
//
// One kernel makes a table of these, and the next one pools all boxes from it. Where the table of all channels would
// take much memory, they do so for some channels after the others, in the same memory.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/workspace.h>

#include "square_bins.cuh"
#include "square_tile.cuh"
#include "team.cuh"

namespace opsmith::ops::roi_pool {
namespace {

// Blocks that share a multiprocessor: as many as there are registers for. Where channels lie apart, elements of 16 bits
// take a register each on their way.
template <bool vectors, bool has_places, class T>
constexpr int square_blocks = has_places ? 2 : (!vectors && sizeof(T) == 2 ? 3 : 4);
// Tables take this much memory where that is in no more groups than these, and never more than the latter.
constexpr int64_t group_bytes = int64_t{256} << 20, most_group_bytes = int64_t{1} << 31;
constexpr int most_groups = 4;

// How a part's channels of a bin are divided up: without places a thread takes two vectors, which lie half a line apart
// for neighbouring threads to read all of a sector.
template <bool has_places>
constexpr int bin_vectors = has_places ? 1 : 2;
template <bool has_places>
constexpr int bin_threads = part_lanes / bin_vectors<has_places>;
// Of these a box of 7 x 7 bins has 392, or 196.
template <bool has_places>
constexpr int large_threads = has_places ? 416 : 224;
template <bool has_places>
constexpr int bins_at_once = large_threads<has_places> / bin_threads<has_places>;
template <bool has_places>
constexpr int large_blocks = has_places ? 2 : 5;
// How often the bins are to cover the images, for the table to be worth its time. Where channels lie apart, and more so
// with elements of 16 bits, it takes longer to read them bin by bin; with places, a bin takes longer to be made of
// squares. Measured on an H200, where both ways took the same time.
template <bool vectors, bool has_places, class T>
constexpr float least_covers = vectors ? (has_places ? 20 : 16)
                                       : (has_places       ? 13
                                          : sizeof(T) == 2 ? 7
                                                           : 10);

// How the table of a call is made: of `parts` parts of the channels at a time, in `groups`. Without squares there are
// none. And the tiles of an image in a part's channels.
struct SquareGroups {
  int64_t groups, parts, all_parts;
  int tile_rows, tiles_down, tiles_across;

  int64_t parts_of(int64_t group) const {
    const int64_t left = all_parts - group * parts;
    return left < parts ? left : parts;
  }
};

template <bool vectors, class T>
SquareGroups group_squares(const View<const T, 4>& features, bool has_places) {
  const auto [images, channels, height, width] = features.size;
  if (images > most_group_bytes / (height * width)) return {};
  const int64_t all_parts = divide_up(channels, part_channels<T>);
  const int64_t part_bytes = Squares<vectors, T>::bytes(images * height * width * part_lanes, has_places);
  const int64_t fit = part_bytes < group_bytes ? group_bytes / part_bytes : 1;
  int64_t groups = divide_up(all_parts, fit);
  if (groups > most_groups) groups = most_groups;
  const int64_t parts = divide_up(all_parts, groups);
  if (part_bytes > most_group_bytes / parts) return {};
  const int64_t tiles_down = divide_up(height, tile_rows);
  return {divide_up(all_parts, parts),
          parts,
          all_parts,
          static_cast<int>(divide_up(height, tiles_down)),
          static_cast<int>(tiles_down),
          static_cast<int>(divide_up(width, tile_columns))};
}

// How many pixels the bins of a call have where the table is worth its time.
template <bool vectors, bool has_places, class T>
float least_large_work(const View<const T, 4>& features, const SquareGroups& groups) {
  const float pixels = static_cast<float>(features.size[0]) * static_cast<float>(features.size[2] * features.size[3]);
  // A part takes as long if it has fewer channels.
  const float channels = static_cast<float>(groups.all_parts) * part_channels<T>;
  return least_covers<vectors, has_places, T> * pixels * channels / static_cast<float>(features.size[1]);
}

// Makes the table of the parts from the first one on. The grid has a block for each tile of each of them; those of the
// same pixels are next to each other, for these are read from the same pages of memory. Does nothing where the plan is
// for small boxes.
template <bool vectors, bool has_places, class T>
__global__ void __launch_bounds__(square_threads, (square_blocks<vectors, has_places, T>))
    make_squares(View<const T, 4> features, Plan plan, SquareGroups groups, int first_part, int parts,
                 Squares<vectors, T> squares) {
  if (!is_for_large(plan, true)) return;
  __shared__ TilePixels<has_places, T> memory;
  const int block = static_cast<int>(blockIdx.x), number = block / parts, part = block - number * parts;
  const int line = number / groups.tiles_across, column = number - line * groups.tiles_across;
  const int image = line / groups.tiles_down, row = (line - image * groups.tiles_down) * groups.tile_rows;
  const SquareTile tile{image, row, column * tile_columns,
                        min(groups.tile_rows, static_cast<int>(features.size[2]) - row)};
  make_tile<vectors, has_places>(features, tile, (first_part + part) * part_channels<T>, part, squares, memory);
}

// What a block has found of some bins, in shared memory: where channels lie apart, its threads write the bins of a
// channel side by side. By the columns that are not used, what lanes put there at the same time is in different banks.
template <bool has_places, class T>
struct FoundBins {
  static constexpr int columns = bins_at_once<has_places> + bin_vectors<has_places>;
  T element[part_channels<T>][columns];
  int32_t place[has_places ? part_channels<T> : 1][columns];

  template <class Found>
  __device__ void put(const Found& found, int first_channel, int bin) {
#pragma unroll
    for (int c = 0; c < Found::width; ++c) {
      element[first_channel + c][bin] = found.element(c);
      if constexpr (has_places) place[first_channel + c][bin] = found.place[c];
    }
  }
  // Writes `bins` bins of `channels` channels, of a box from its bin `first_bin` and channel `first_channel` on.
  __device__ void write(const Team& team, int columns_of_box, int first_channel, int channels, int first_bin, int bins,
                        T* elements, int32_t* places) const {
    const Quotients of_bins(bins);
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < channels * bins; index += large_threads<has_places>) {
      const int channel = of_bins.of(index), bin = index - channel * bins;
      const int i = team.of_columns.of(first_bin + bin), j = first_bin + bin - i * columns_of_box;
      const int at = team.result(first_channel + channel, i, j);
      write_alone(element[channel][bin], elements + at);
      if constexpr (has_places) write_alone(place[channel][bin], places + at);
    }
  }
};

// Pools a box in a part's channels: the grid's x counts boxes, and its y the parts from the first one on. So all boxes
// come before the next part, and this one is read from the second-level cache. Does nothing where the plan is for small
// boxes. Without `has_places` there is no argmax.
template <bool vectors, bool has_places, class T>
__global__ void __launch_bounds__(large_threads<has_places>, large_blocks<has_places>)
    pool_squares(View<const T, 4> features, Plan plan, Team team, int first_part, bool is_last,
                 Squares<vectors, T> squares, T* out, int32_t* argmax) {
  if (!is_for_large(plan, !is_last)) return;
  using Found = std::conditional_t<has_places, LargestSquares<lane_channels<T>, T>, LargestValues<lane_channels<T>, T>>;
  constexpr int count = bin_vectors<has_places>, own_bins = bins_at_once<has_places>;
  constexpr int step = bin_threads<has_places> * lane_channels<T>;  // from a thread's vector to its next one
  const int64_t k = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % bin_threads<has_places>;
  const int part = static_cast<int>(blockIdx.y), channels = static_cast<int>(features.size[1]);
  const int first_channel = (first_part + part) * part_channels<T>, channel = first_channel + lane * lane_channels<T>;
  int vectors_there = 0;
#pragma unroll
  for (int v = 0; v < count; ++v) vectors_there += channel + v * step < channels;
  const int image = plan.box(k).image, image_pixels = static_cast<int>(features.size[2] * features.size[3]);
  const int first_entry = (part * static_cast<int>(features.size[0]) + image) * image_pixels * part_lanes + lane;
  const T* const pixels = features.data + image * features.stride[0] + channel * features.stride[1];
  out += k * team.next_box, argmax += k * team.next_box;
#pragma unroll 1
  for (int first_bin = 0; first_bin < team.bins; first_bin += own_bins) {
    const int own = thread / bin_threads<has_places>, bin = first_bin + own;
    const int i = team.of_columns.of(bin), j = bin - i * plan.columns;
    const bool is_there = bin < team.bins && vectors_there > 0;
    Found found[count];
    if (is_there) {
      const Range y = plan.row(k, i), x = plan.column(k, j);
      if (y.low >= y.high || x.low >= x.high) {
#pragma unroll
        for (Found& one : found) one.be_empty();
      } else {
        const LevelOfImage<vectors, T> from(squares, level_of(y, x), first_entry, team.image_width, pixels, team.plane);
        look_through_squares<step>(from, y, x, vectors_there, found);
      }
    }
    if constexpr (vectors) {
#pragma unroll
      for (int v = 0; v < count; ++v) {
        if (!is_there || v >= vectors_there) continue;
        write_results<true>(found[v], out, argmax, team.result(channel + v * step, i, j), 0, [](int) { return true; });
      }
    } else {
      __shared__ FoundBins<has_places, T> all;
      if (first_bin > 0) __syncthreads();
#pragma unroll
      for (int v = 0; v < count; ++v) {
        if (is_there) all.put(found[v], lane * lane_channels<T> + v * step, own);
      }
      __syncthreads();
      all.write(team, plan.columns, first_channel, min(part_channels<T>, channels - first_channel), first_bin,
                min(own_bins, team.bins - first_bin), out, argmax);
    }
  }
}

template <bool vectors, bool has_places, class T>
void launch_large(const View<const T, 4>& features, const Plan& plan, const SquareGroups& groups, const View<T, 4>& out,
                  const View<int32_t, 4>& argmax, Stream stream) {
  const auto narrow = [](int64_t n) { return static_cast<int>(n); };
  const int64_t images = features.size[0];
  const int64_t entries = groups.parts * images * features.size[2] * features.size[3] * part_lanes;  // of a level
  const Workspace<Vector<uint32_t, 4>> room(
      divide_up(Squares<vectors, T>::bytes(entries, has_places), sizeof(Vector<uint32_t, 4>)));
  const Squares<vectors, T> squares(room.data, entries);
  const Team team = make_team<lane_channels<T>, vectors>(features, out);
  for (int64_t group = 0; group < groups.groups; ++group) {
    const int64_t first_part = group * groups.parts, parts = groups.parts_of(group);
    // There are no more tiles than pixels in the tables, so fewer than a grid's x can count.
    const auto tiles = static_cast<unsigned>(images * groups.tiles_down * groups.tiles_across * parts);
    launch_early<make_squares<vectors, has_places, T>>("roi_pool_sized", tiles, square_threads, 0, stream, features,
                                                       plan, groups, narrow(first_part), narrow(parts), squares);
    const dim3 grid(static_cast<unsigned>(out.size[0]), static_cast<unsigned>(parts));
    launch_early<pool_squares<vectors, has_places, T>>("roi_pool_sized", grid, large_threads<has_places>, 0, stream,
                                                       features, plan, team, narrow(first_part),
                                                       group + 1 == groups.groups, squares, out.data, argmax.data);
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
