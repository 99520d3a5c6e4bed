// How the threads of a block share the bins and the channels of a small box, and how they write results.
#pragma once

#include <opsmith/divide.h>

#include "../_boxes/channels.cuh"
#include "plan.cuh"
#include "small_bins.cuh"

namespace opsmith::ops::roi_pool {
namespace {

constexpr int small_threads = 416;  // of which a box of 7 x 7 bins has 392 for eight slots
// Channels of a block, or a few less: as was fastest on an H100 where they lie side by side, and where they lie apart.
template <bool vectors>
constexpr int small_channels = vectors ? 64 : 32;
constexpr int small_slots = 8;  // that lie side by side, each with a vector of channels
// Blocks that share a multiprocessor: as many as there are registers for.
constexpr int most_small_blocks = 3;
template <int width, class T>
constexpr int small_blocks = width * sizeof(compute_t<T>) <= 16 ? most_small_blocks : 2;
static_assert(most_plan_bins * most_plan_bins <= small_threads);

// Divides n by a number d, exactly where n < 2^12 and n * d < 2^20.
struct Quotients {
  unsigned inverse;

  OPSMITH_HOST_DEVICE explicit Quotients(int divisor)
      : inverse(((1u << 20) + static_cast<unsigned>(divisor) - 1) / static_cast<unsigned>(divisor)) {}
  __device__ int of(int n) const { return static_cast<int>(static_cast<unsigned>(n) * inverse >> 20); }
};

// A slot has `width` channels of a bin at once. Where channels lie apart, there is a thread for each bin of a slot, and
// of its channels each is `slots` behind the last: a block's results of one lie in one piece with those of the others.
struct Team {
  int bins, slots;
  Quotients of_bins, of_columns;
  int channels;  // of a block
  PlaneSteps plane;
  int image_width;
  // The strides of results, which are the same for elements and places.
  int64_t next_box;
  int next_channel, down, across;

  __device__ int result(int channel, int i, int j) const { return channel * next_channel + i * down + j * across; }
};

template <int width, bool vectors, class T>
Team make_team(const View<const T, 4>& features, const View<T, 4>& out) {
  const int bins = static_cast<int>(out.size[2] * out.size[3]);
  const int64_t needed = divide_up(out.size[1], width), fit = small_threads / bins;
  const int slots = static_cast<int>(vectors ? small_slots : fit < needed ? fit : needed), at_once = slots * width;
  const int rounds = at_once < small_channels<vectors> ? small_channels<vectors> / at_once : 1;
  return {bins,
          slots,
          Quotients(bins),
          Quotients(static_cast<int>(out.size[3])),
          rounds * at_once,
          plane_steps(features),
          static_cast<int>(features.size[3]),
          out.stride[0],
          static_cast<int>(out.stride[1]),
          static_cast<int>(out.stride[2]),
          static_cast<int>(out.stride[3])};
}

// The grid's x counts boxes, and its y channels.
inline dim3 grid_of(const Team& team, int64_t boxes, int64_t channels) {
  return {static_cast<unsigned>(boxes), static_cast<unsigned>(divide_up(channels, team.channels))};
}

// Whether a team can make the boxes of a call. There are to be many: a block has a whole one, for some channels.
template <class T>
bool suit_team(const View<const T, 4>& features, const View<T, 4>& out, const View<int32_t, 4>& argmax) {
  constexpr int64_t least_boxes = 256, most_boxes = int64_t{1} << 21, most_channels = int64_t{1} << 16;
  constexpr int64_t most_images = int64_t{1} << 30, most_offset = (int64_t{1} << 31) - 1;
  if (out.size[0] < least_boxes || out.size[0] > most_boxes || out.size[1] > most_channels ||
      out.size[2] > most_plan_bins || out.size[3] > most_plan_bins || features.numel() == 0 ||
      features.size[0] > most_images || !has_plane_steps(features)) {
    return false;
  }
  bool are_alike = true;
  int64_t last = 0;  // result of a box
  for (int axis = 0; axis < 4; ++axis) {
    are_alike = are_alike && (!argmax || out.stride[axis] == argmax.stride[axis]);
    if (axis > 0) last += (out.size[axis] - 1) * out.stride[axis];
  }
  return are_alike && last <= most_offset;
}

// Writes what is not read again soon.
template <class U>
__device__ void write_alone(U value, U* to) {
  if constexpr (sizeof(U) >= 4) {
    boxes::write_vector(Vector<U, 1>{{value}}, to);
  } else {
    *to = value;
  }
}

// Writes a bin's results, from the one of the first channel on. Where channels lie apart these are `step` apart, as far
// as is_there(c) holds.
template <bool vectors, class Found, class T, class IsThere>
__device__ void write_results(const Found& found, T* elements, int32_t* places, int first, int step,
                              const IsThere& is_there) {
  if constexpr (vectors) {
    boxes::write_vector(found.elements(), elements + first);
    if constexpr (Found::has_places) boxes::write_vector(rounded<int32_t>(found.place), places + first);
  } else {
    elements = as_address(elements), places = as_address(places);
#pragma unroll
    for (int c = 0; c < Found::width; ++c) {
      if (c > 0 && !is_there(c)) break;
      write_alone(found.element(c), elements + (first + c * step));
      if constexpr (Found::has_places) write_alone(found.place[c], places + (first + c * step));
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
