// What nms_gpu.cpp, which has tensors, asks of nms.cu, which has kernels.
#pragma once

#include <opsmith/kernel.h>

#include <cstdint>

namespace nms_gpu {

using opsmith::View;

// Boxes that are settled at once; see nms.cu.
constexpr int64_t tile = 1024;

// Keys of scores, which a signed ascending sort brings into order: of 4 bytes, for double of 8.
template <class T>
void write_keys(View<const T, 1> scores, void* keys, void* stream);

// How far the suppression has come.
struct Progress {
  int64_t count;           // boxes kept so far
  int32_t kept_in_tile;    // of these, in the last tile
  int32_t first_in_reach;  // of those in the tile, the first one of the class that goes on behind it
};

// All memory of a suppression, on the GPU. C is float or double; a box is four of them.
template <class C>
struct Work {
  int64_t n;
  const int64_t* order;     // [n]: box numbers by decreasing score
  const int64_t* by_class;  // [n]: ranks in that order, by class; or null where there are no classes
  const int64_t* classes;   // [n]: in the order of by_class, ascending; or null
  C* boxes;                 // [n, 4]: in the order of by_class, as all that follows
  C* areas;                 // [n]
  uint8_t* removed;         // [n]
  uint8_t* kept;            // [n]: by rank
  uint32_t* overlaps;       // [tile / 32, tile]: bit j of [w, i] is set where box 32 w + j of a tile suppresses box i
  C* kept_boxes;            // [tile, 4]: those kept in the last tile
  C* kept_areas;            // [tile]
  Progress* progress;
};

// Sets work.kept. With `most` reached it may stop, unless there are classes.
template <class T>
void suppress(View<const T, 2> boxes, const Work<opsmith::compute_t<T>>& work, double threshold, int64_t most,
              void* stream);

// Writes the first `most` kept box numbers, -1 behind them, and their number. through[rank] is how many are kept up to
// and including a rank.
void write_indices(int64_t n, const int64_t* order, const uint8_t* kept, const int64_t* through, int64_t most,
                   int64_t* indices, int64_t* count, void* stream);

}  // namespace nms_gpu
