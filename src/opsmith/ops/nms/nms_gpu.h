// What nms_gpu.cpp, which has tensors, asks of nms.cu and order.cu, which have kernels.
#pragma once

#include <opsmith/kernel.h>

#include <cstdint>

namespace opsmith::ops::nms::hard_gpu {

// Boxes that are settled at once; see nms.cu.
constexpr int64_t tile = 1024;

// Up to how many boxes are put in order by counting for each how many come before it: one launch, where a sort takes a
// dozen.
constexpr int64_t most_to_count = 4096;

// How far the suppression has come.
struct Progress {
  int64_t count;           // boxes kept so far
  int32_t kept_in_tile;    // of these, in the last tile
  int32_t first_in_reach;  // of those in the tile, the first one of the class that goes on behind it
};

// All memory of a suppression, on the GPU. C is float or double; a box is four of them. Without classes by_class,
// classes and kept are null.
template <class C>
struct Work {
  int64_t n;
  int64_t* order;      // [n]: box numbers by decreasing score
  int64_t* by_class;   // [n]: ranks in that order, by class
  int64_t* classes;    // [n]: in the order of by_class, ascending
  C* boxes;            // [n, 4]: in the order of by_class, as all that follows but `kept`
  C* areas;            // [n]
  C* kept_boxes;       // [tile, 4]: those kept in the last tile
  C* kept_areas;       // [tile]
  uint32_t* overlaps;  // [tile / 32, tile]: bit j of [w, i] is set where box 32 w + j of a tile suppresses box i
  uint8_t* removed;    // [n]
  uint8_t* kept;       // [n]: by rank
  Progress* progress;
  int64_t* indices;  // [most]: the result
  int64_t* count;    // []
  int64_t most;
};

// Keys of scores, which a signed ascending sort brings into order: of 4 bytes, for double of 8.
template <class T>
void write_keys(View<const T, 1> scores, void* keys, void* stream);

// Puts boxes in the order that work.order and work.by_class hold, and begins the result.
template <class T>
void gather(View<const T, 2> boxes, const Work<compute_t<T>>& work, void* stream);

// The same for up to most_to_count boxes, which are not in order yet: writes order, by_class and classes, too.
template <class T>
void order_and_gather(View<const T, 2> boxes, View<const T, 1> scores, View<const int64_t, 1> idxs,
                      const Work<compute_t<T>>& work, void* stream);

// Goes through all boxes: without classes the result is there then, else work.kept.
template <class C>
void suppress(const Work<C>& work, double threshold, void* stream);

// With classes: the result from work.kept. through[rank] is how many are kept up to and including a rank.
template <class C>
void write_indices(const Work<C>& work, const int64_t* through, void* stream);

}  // namespace opsmith::ops::nms::hard_gpu
