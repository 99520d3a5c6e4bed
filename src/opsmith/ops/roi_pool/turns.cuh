// In which order the blocks of a grid make the tables of squares and the bins that are read from them.
//
// Both are divided into turns: a tile of a part's table, or some boxes in a part's channels. Blocks draw them one after
// the other, those of a table before those of the bins of the part before it:
//
//     squares of part 0, squares of part 1, bins of part 0, squares of part 2, bins of part 1, ...
//
// A turn waits for turns that were drawn long before it, so hardly ever, and never for one that nobody has drawn:
// whatever blocks a GPU runs at once, the first turn that is not done yet goes on.
#pragma once

#include "plan.cuh"
#include "squares.cuh"

namespace opsmith::ops::roi_pool {
namespace {

// One turn of a part: of its tiles, or of its groups of boxes.
struct Turn {
  int part, index;
  bool is_tile;
};

struct Turns {
  int parts, tiles, groups;  // tiles of a part's table, and groups of boxes
  int boxes;                 // of a group, in any image
  int images, image_parts;   // images of a part, and parts that have the same channels
  int tiles_across, tiles_of_image;

  // Those before the first part's bins and behind the last one's squares do nothing.
  OPSMITH_HOST_DEVICE int64_t count() const { return (int64_t{parts} + 1) * (int64_t{tiles} + groups); }
  OPSMITH_HOST_DEVICE Turn turn(int number) const {
    const int both = tiles + groups, part = number / both, index = number - part * both;
    return index < tiles ? Turn{part, index, true} : Turn{part - 1, index - tiles, false};
  }
  OPSMITH_HOST_DEVICE bool has(const Turn& turn) const { return turn.part >= 0 && turn.part < parts; }
  // The last part of some channels may have more images than there are.
  OPSMITH_HOST_DEVICE int64_t first_image(const Turn& turn) const { return int64_t{turn.part % image_parts} * images; }
  OPSMITH_HOST_DEVICE int channels_before(const Turn& turn, int channels_of_part) const {
    return turn.part / image_parts * channels_of_part;
  }
  OPSMITH_HOST_DEVICE SquareTile tile(const Turn& turn) const {
    const int image = turn.index / tiles_of_image, rest = turn.index - image * tiles_of_image;
    const int down = rest / tiles_across;
    return {first_image(turn) + image, image, down * tile_rows, (rest - down * tiles_across) * tile_columns};
  }
};

// Waits until this many of a part's turns are done. To be called by one thread, with a barrier behind it: from then on
// all threads of the block can read what was written in those turns.
__device__ inline void wait_until(const int32_t* done, int count) {
  while (*static_cast<const volatile int32_t*>(done) < count) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    __nanosleep(50);
#endif
  }
  __threadfence();
}

// What a turn needs: its part's squares, or memory that the bins of an earlier part have been read from.
__device__ inline void wait_for_turn(const Plan& plan, const Turns& turns, const Turn& turn) {
  if (!turn.is_tile) {
    wait_until(&plan.progress(turn.part).first, turns.tiles);
  } else if (turn.part >= most_parts) {
    wait_until(&plan.progress(turn.part - most_parts).second, turns.groups);
  }
}

// Says that a turn is done. To be called by one thread, with a barrier before it.
__device__ inline void finish_turn(const Plan& plan, const Turn& turn) {
  __threadfence();
  Plan::Pair& progress = plan.progress(turn.part);
  atomicAdd(turn.is_tile ? &progress.first : &progress.second, 1);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
