// roi_pool on a GPU, for calls with many pixels in their boxes: bins are made of the maxima of squares of pixels.
#pragma once

#include <opsmith/workspace.h>

#include "square_bins.cuh"
#include "team.cuh"
#include "turns.cuh"

namespace opsmith::ops::roi_pool {
namespace {

// Blocks that share a multiprocessor: as many as shared memory and registers have room for.
template <bool has_places>
constexpr int large_blocks = has_places ? 2 : 4;
// Bins of a group of boxes that are in a part's images, roughly. Of those in other images a group may have a few times
// as many.
constexpr int group_bins = 256, most_image_parts = 8;
static_assert(group_bins * most_image_parts < 1 << 12 && group_bins >= most_plan_bins * most_plan_bins);  // Quotients
constexpr int64_t most_table_bytes = int64_t{1} << 31;
// How often the bins are to cover the images, for the table to be worth its time: where channels lie side by side, and
// where they lie apart and take longer to be read bin by bin.
template <bool vectors>
constexpr float least_covers = vectors ? 10 : 5;

// Makes the bins of those boxes of a group that are in a part's images, in its channels.
template <bool vectors, bool has_places, class T>
__device__ void pool_group(const View<const T, 4>& features, const Plan& plan, const Team& team, const Turns& turns,
                           const Turn& turn, const Squares<vectors, T>& squares, T* out, int32_t* argmax) {
  constexpr int width = lane_channels<T>;
  const int64_t first_box = int64_t{turn.index} * turns.boxes, left = plan.boxes - first_box;
  const int boxes = left < turns.boxes ? static_cast<int>(left) : turns.boxes;
  const int lane = static_cast<int>(threadIdx.x) % part_lanes;
  const int channel = turns.channels_before(turn, part_channels<T>) + lane * width;
  const int channels = static_cast<int>(features.size[1]);
  if (channel >= channels) return;
  const int64_t first_image = turns.first_image(turn);
  const auto is_there = [&](int c) { return channel + c < channels; };
#pragma unroll 1
  for (int bin_of_group = static_cast<int>(threadIdx.x) / part_lanes; bin_of_group < boxes * team.bins;
       bin_of_group += square_threads / part_lanes) {
    const int box = team.of_bins.of(bin_of_group), bin = bin_of_group - box * team.bins;
    const int64_t k = first_box + box;
    const int64_t image = plan.box(k).image;
    if (image < first_image || image >= first_image + turns.images) continue;
    const int i = team.of_columns.of(bin), j = bin - i * plan.columns;
    const Range y = plan.row(k, i), x = plan.column(k, j);
    std::conditional_t<has_places, LargestSquares<width, T>, LargestValues<width, T>> found;
    if (y.low >= y.high || x.low >= x.high) {
      found.be_empty();
    } else {
      const T* const pixels = features.data + image * features.stride[0] + channel * features.stride[1];
      const LevelOfImage<vectors, T> from(squares, turn.part, level_of(y, x), image - first_image,
                                          features.size[2] * features.size[3], team.image_width, lane, pixels,
                                          team.plane);
      look_through_squares(from, y, x, found);
    }
    write_results<vectors>(found, out + k * team.next_box, argmax + k * team.next_box, team.result(channel, i, j),
                           team.next_channel, is_there);
  }
}

// Does nothing where the plan is for small boxes. Without `has_places` there is no argmax.
template <bool vectors, bool has_places, class T>
__global__ void __launch_bounds__(square_threads, large_blocks<has_places>)
    pool_large(View<const T, 4> features, Plan plan, Team team, Turns turns, Squares<vectors, T> squares, T* out,
               int32_t* argmax) {
  if (!is_for_large(plan)) return;
  __shared__ TilePixels<T> pixels;
  __shared__ int drawn;
  const bool is_first = threadIdx.x == 0;
  if (is_first) drawn = atomicAdd(plan.turns(), 1);
#pragma unroll 1
  for (;;) {
    __syncthreads();
    const int number = drawn;
    if (number >= turns.count()) return;
    const Turn turn = turns.turn(number);
    const bool is_there = turns.has(turn);
    int next = 0;
    if (is_first) {
      next = atomicAdd(plan.turns(), 1);  // it is not needed before this turn's end
      if (is_there) wait_for_turn(plan, turns, turn);
    }
    __syncthreads();
    if (is_there && turn.is_tile) {
      const SquareTile tile = turns.tile(turn);
      if (tile.image < features.size[0]) {
        load_tile<vectors>(features, tile, turns.channels_before(turn, part_channels<T>), pixels);
        __syncthreads();
        make_squares<has_places>(pixels, tile, turn.part, static_cast<int>(features.size[2]),
                                 static_cast<int>(features.size[3]), squares);
      }
    } else if (is_there) {
      pool_group<vectors, has_places>(features, plan, team, turns, turn, squares, out, argmax);
    }
    __syncthreads();
    if (is_first) {
      if (is_there) finish_turn(plan, turn);
      drawn = next;
    }
  }
}

// The turns of a call that a team suits. There are none where tables would take too much memory, or too many turns.
template <bool vectors, class T>
Turns make_turns(const View<const T, 4>& features, const View<T, 4>& out, bool has_places) {
  constexpr int64_t most_turns = int64_t{1} << 30;  // blocks draw some more before they stop
  const auto at_most = [](int64_t n, int64_t most) { return n < most ? n : most; };
  const auto [all_images, channels, height, width] = features.size;
  const int64_t pixels = height * width, fit = pixels < part_pixels ? part_pixels / pixels : 1;
  const int64_t images = at_most(all_images, fit), image_parts = divide_up(all_images, images);
  if (Squares<vectors, T>::bytes(images * pixels * part_lanes, has_places) > most_table_bytes) return {};
  const int64_t parts = divide_up(channels, part_channels<T>) * image_parts;
  const int64_t tiles_across = divide_up(width, tile_columns),
                tiles_of_image = tiles_across * divide_up(height, tile_rows);
  const int64_t tiles = tiles_of_image * images;
  const int64_t boxes = group_bins / (out.size[2] * out.size[3]) * at_most(image_parts, most_image_parts);
  const int64_t groups = divide_up(out.size[0], boxes);
  if ((parts + 1) * (tiles + groups) > most_turns) return {};
  const auto narrow = [](int64_t n) { return static_cast<int>(n); };
  return {narrow(parts),  narrow(tiles),       narrow(groups),       narrow(boxes),
          narrow(images), narrow(image_parts), narrow(tiles_across), narrow(tiles_of_image)};
}

// How many pixels the bins of a call have where the table is worth its time.
template <bool vectors, class T>
float least_large_work(const View<const T, 4>& features, const Turns& turns) {
  const float pixels = static_cast<float>(features.size[0]) * static_cast<float>(features.size[2] * features.size[3]);
  // A part takes as long if it has fewer channels.
  const float channels = static_cast<float>(turns.parts / turns.image_parts) * part_channels<T>;
  return least_covers<vectors> * pixels * channels / static_cast<float>(features.size[1]);
}

inline int count_multiprocessors() {
  int device = 0, count = 1;
#if defined(__HIPCC__)
  (void)hipGetDevice(&device);
  (void)hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device);
#else
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
#endif
  return count;
}

template <bool vectors, bool has_places, class T>
void launch_large(const View<const T, 4>& features, const Plan& plan, const Turns& turns, const View<T, 4>& out,
                  const View<int32_t, 4>& argmax, Stream stream) {
  const int64_t entries = turns.images * features.size[2] * features.size[3] * part_lanes;  // of a level
  const Workspace<Vector<uint32_t, 4>> room(
      divide_up(Squares<vectors, T>::bytes(entries, has_places), sizeof(Vector<uint32_t, 4>)));
  const Squares<vectors, T> squares(room.data, entries);
  const Team team = make_team<lane_channels<T>, vectors>(features, out);
  const int64_t most = int64_t{count_multiprocessors()} * large_blocks<has_places>;
  const unsigned blocks = blocks_for(turns.count() < most ? turns.count() : most, 1);
  launch_early<pool_large<vectors, has_places, T>>("roi_pool_sized", blocks, square_threads, 0, stream, features, plan,
                                                   team, turns, squares, out.data, argmax.data);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
