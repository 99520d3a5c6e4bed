// Where the sampling points of boxes lie in images that are planes in shared memory, for pool_planes.cuh: found once
// for all channels.
#pragma once

#include <opsmith/early_launch.h>
#include <opsmith/lanes.h>

#include "roi_align.h"

namespace opsmith::ops::roi_align {
namespace {

constexpr int plane_samples = 2;  // the sampling_ratio that there is a kernel for, which most detectors have
// A column of bins has two points along x, and each of these lies between two pixels.
constexpr int column_taps = 2 * plane_samples;

// How an image lies in shared memory, a word of 32 bits for a pixel. Behind its last row and its last column are zeros,
// for points that are not next to the image.
struct Plane {
  int height, width;
  int pitch;  // of rows, in words: a multiple of four

  OPSMITH_HOST_DEVICE int bytes() const { return (height + 1) * pitch * 4; }
};

// The bins of a box that a warp makes at once. A box of many rows or columns of bins has several pieces.
struct Pieces {
  static constexpr int most_rows = 16;
  int rows, columns;  // of a piece
  int across, count;  // pieces of a box, along x and in all
};

// What lanes have of a piece's columns, if some of them have a column: the pixels that each reads, as bytes in a row,
// and what these weigh in the mean over a bin.
template <int column_lanes>
struct PieceColumns {
  static constexpr int taps = column_taps / column_lanes;  // of a lane
  static constexpr int most = lanes / column_lanes;
  unsigned place[taps][lanes];
  float weight[taps][lanes];
};

// The points of a row of bins along y: where the row of pixels before each begins, in bytes, and what the row behind
// that weighs.
struct alignas(16) PieceRow {
  unsigned place[plane_samples];
  float above[plane_samples];
};

// A piece's columns and behind them its rows, from line to line of memory.
template <int column_lanes>
OPSMITH_HOST_DEVICE unsigned record_bytes(const Pieces& pieces) {
  const auto bytes = sizeof(PieceColumns<column_lanes>) + pieces.rows * sizeof(PieceRow);
  return static_cast<unsigned>((bytes + 127) / 128 * 128);
}

// The boxes of each image.
struct BoxLists {
  static constexpr int ahead = 64;  // so many may be read behind the last one, and are box 0

  int* count;   // of each image
  int* number;  // [images, all + ahead]
  int64_t all;

  __device__ int* of(int64_t image) const { return number + image * (all + ahead); }
};

constexpr int point_threads = 256;

// To be called by a block. The order of a list is any: no box has anything to do with another.
__device__ inline void list_boxes(const View<const float, 2>& boxes, const Pooling& pooling, int64_t image,
                                  const BoxLists& lists) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
#pragma unroll 4
  for (int64_t k = threadIdx.x; k < boxes.size[0]; k += point_threads) {
    const Roi roi = read_roi(boxes, k, pooling);
    // What is not a box has no points, in the first image.
    if ((roi.image < 0 ? 0 : roi.image) == image) lists.of(image)[atomicAdd(&count, 1)] = static_cast<int>(k);
  }
  __syncthreads();
  if (threadIdx.x == 0) lists.count[image] = count;
  if (threadIdx.x < BoxLists::ahead) lists.of(image)[count + threadIdx.x] = 0;
}

// A point: the pixel before it, and what the next one weighs. `none` is the pixel of a point that there is not.
struct Point {
  int pixel;
  float above;
};

__device__ inline Point find_point(const Roi& roi, const Side& side, int bin, int bins, int sample, int none) {
  Point point{none, 0.0f};
  if (roi.image >= 0 && bin < bins) {
    side.find(side.start + unfused::product(static_cast<float>(bin), side.bin), sample, point.pixel, point.above);
  }
  return point;
}

// One block for each image lists its boxes. In the others a warp finds the points of a piece.
template <int column_lanes>
__global__ void __launch_bounds__(point_threads) find_points(View<const float, 2> boxes, Pooling pooling, Plane plane,
                                                             Pieces pieces, BoxLists lists, char* records) {
  let_next_kernel_come_up();
  if (blockIdx.x < pooling.images) {
    list_boxes(boxes, pooling, blockIdx.x, lists);
    return;
  }
  using Columns = PieceColumns<column_lanes>;
  constexpr int warps = point_threads / lanes;
  const int lane = threadIdx.x % lanes;
  const int64_t first = (blockIdx.x - pooling.images) * warps + threadIdx.x / lanes;
#pragma unroll 1
  for (int64_t k = first; k < boxes.size[0]; k += (gridDim.x - pooling.images) * warps) {
    const Roi roi = read_roi(boxes, k, pooling);
#pragma unroll 1
    for (int piece = 0; piece < pieces.count; ++piece) {
      char* const record = records + (k * pieces.count + piece) * record_bytes<column_lanes>(pieces);
      const int top = piece / pieces.across * pieces.rows, left = piece % pieces.across * pieces.columns;
      // Lanes without a column have the last one.
      const int column = left + min(lane / column_lanes, pieces.columns - 1);
      auto& columns = *reinterpret_cast<Columns*>(record);
#pragma unroll
      for (int t = 0; t < Columns::taps; ++t) {
        const int tap = lane % column_lanes * Columns::taps + t;
        const Point point = find_point(roi, roi.x, column, static_cast<int>(pooling.out_width), tap / 2, plane.width);
        // A pixel that has all the weight is there twice, as what weighs 0 must not take part.
        const bool is_second = tap % 2 == 1, has_second = point.above > 0;
        constexpr float share = 1.0f / (plane_samples * plane_samples);
        columns.place[t][lane] = (point.pixel + (is_second && has_second ? 1 : 0)) * 4;
        columns.weight[t][lane] = share * (!has_second ? 0.5f : is_second ? point.above : 1.0f - point.above);
      }
      if (lane < pieces.rows * plane_samples) {
        const int row = lane / plane_samples, sample = lane % plane_samples;
        const Point point =
            find_point(roi, roi.y, top + row, static_cast<int>(pooling.out_height), sample, plane.height);
        auto& to = reinterpret_cast<PieceRow*>(record + sizeof(Columns))[row];
        to.place[sample] = point.pixel * plane.pitch * 4;
        to.above[sample] = point.above;
      }
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_align
