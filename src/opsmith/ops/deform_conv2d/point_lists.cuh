// Which points read from a pixel: lists of the points between the same four pixels, on a GPU.
//
// A counting sort: points are counted by their cell, which is the place of the pixel at their top left; each cell gets
// room for its list; points go there in any order, and then each to its rank among those of its cell. So the lists do
// not depend on the order in which threads come, only the room that they have does. Ranking compares all points of a
// cell with each other, which are a few, unless most of an image's points lie between the same four pixels.
#pragma once

#include "../_gpu/allot.cuh"
#include "pieces.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// A point in its cell's list: where its tap's gradients are, [position][tap], and its weights.
template <class C>
struct alignas(4 * sizeof(C)) Entry {
  int source;
  C below, right, mask;
};

// Cells are counted [image of the piece][offset group][top + 1][left + 1]. The list of a cell ends at its `ends`.
template <class C>
struct Lists {
  Piece piece;  // whose points are listed
  int *counts, *ends;
  int64_t high, wide, cells;
  int64_t points;
  int *used, *unordered;
  Entry<C>* entries;
};

// Finds a point, numbered [position][offset group][tap], and its cell, or -1 where it reads no pixel.
template <class T>
__device__ Point<compute_t<T>> find_point(const Sampler<T>& sampler, const Lists<compute_t<T>>& to, int n,
                                          int64_t& cell, compute_t<T>& mask) {
  const Convolution& call = sampler.call;
  const Piece& piece = to.piece;
  const int taps = static_cast<int>(call.taps()), offset_groups = static_cast<int>(call.offset_groups);
  const int row = n / taps / offset_groups, image = row / piece.positions, offset_group = n / taps % offset_groups;
  const Point<compute_t<T>> point =
      sampler.find(piece.image + image, piece.first + row % piece.positions, offset_group, n % taps, mask);
  cell = point.top < -1
             ? -1
             : ((int64_t{image} * offset_groups + offset_group) * to.high + point.top + 1) * to.wide + point.left + 1;
  return point;
}

// The points in the order in which threads read offsets that lie side by side.
__device__ inline int point_of(const Convolution& call, const Piece& piece, int64_t n) {
  const int64_t row = n % piece.rows(), rest = n / piece.rows();
  return static_cast<int>(row * call.offset_groups * call.taps() + rest);
}

__global__ void __launch_bounds__(tile_threads) fill_zero(int* to, int64_t count) {
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    to[n] = 0;
  }
}

template <class T>
__global__ void __launch_bounds__(tile_threads) count_points(Sampler<T> sampler, Lists<compute_t<T>> lists) {
  const int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x;
  if (n >= lists.points) return;
  int64_t cell;
  compute_t<T> mask;
  find_point(sampler, lists, point_of(sampler.call, lists.piece, n), cell, mask);
  if (cell >= 0) atomicAdd(lists.counts + cell, 1);
}

// Gives each cell the room of its list: `ends` is where it begins.
template <class C>
__global__ void __launch_bounds__(tile_threads) allot_cells(Lists<C> lists) {
  const int64_t cell = blockIdx.x * int64_t{tile_threads} + threadIdx.x;
  const int room = gpu::allot<tile_threads>(cell < lists.cells ? lists.counts[cell] : 0, lists.used);
  if (cell < lists.cells) lists.ends[cell] = room;
}

template <class T>
__global__ void __launch_bounds__(tile_threads) scatter_points(Sampler<T> sampler, Lists<compute_t<T>> lists) {
  const int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x;
  if (n >= lists.points) return;
  const int point = point_of(sampler.call, lists.piece, n);
  int64_t cell;
  compute_t<T> mask;
  find_point(sampler, lists, point, cell, mask);
  if (cell >= 0) lists.unordered[atomicAdd(lists.ends + cell, 1)] = point;
}

template <class T>
__global__ void __launch_bounds__(tile_threads) rank_points(Sampler<T> sampler, Lists<compute_t<T>> lists) {
  const int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x;
  if (n >= *lists.used) return;
  const int own = lists.unordered[n];
  int64_t cell;
  compute_t<T> mask;
  const Point<compute_t<T>> point = find_point(sampler, lists, own, cell, mask);
  const int end = lists.ends[cell], begin = end - lists.counts[cell];
  int rank = 0;
  for (int other = begin; other < end; ++other) rank += lists.unordered[other] < own;
  const int taps = static_cast<int>(sampler.call.taps());
  const int source = own / taps / static_cast<int>(sampler.call.offset_groups) * taps + own % taps;
  lists.entries[begin + rank] = {source, point.below, point.right, mask};
}

// The lists of some images, or of a piece of one, and their memory.
template <class C>
class ListRoom {
 public:
  ListRoom(const Convolution& call, int64_t images, int64_t rows)
      : call_(call), cells_(cells_of(images)), numbers_(2 * cells_ + 1 + points_of(rows)), entries_(points_of(rows)) {}

  template <class T>
  Lists<C> list(const Sampler<T>& sampler, const Piece& piece, Stream stream) const {
    const int64_t cells = cells_of(piece.images), points = points_of(piece.rows());
    // How much room is used is counted behind the counts.
    const Lists<C> lists{
        piece,  numbers_.data,         numbers_.data + cells_ + 1,     call_.height + 1, call_.width + 1, cells,
        points, numbers_.data + cells, numbers_.data + 2 * cells_ + 1, entries_.data};
    fill_zero<<<blocks_for(cells + 1, tile_threads), tile_threads, 0, stream>>>(lists.counts, cells + 1);
    const unsigned blocks = grid_of(divide_up(points, tile_threads));
    count_points<T><<<blocks, tile_threads, 0, stream>>>(sampler, lists);
    allot_cells<C><<<grid_of(divide_up(cells, tile_threads)), tile_threads, 0, stream>>>(lists);
    scatter_points<T><<<blocks, tile_threads, 0, stream>>>(sampler, lists);
    rank_points<T><<<blocks, tile_threads, 0, stream>>>(sampler, lists);
    return lists;
  }

 private:
  int64_t cells_of(int64_t images) const {
    return images * call_.offset_groups * (call_.height + 1) * (call_.width + 1);
  }
  int64_t points_of(int64_t rows) const { return rows * call_.offset_groups * call_.taps(); }

  const Convolution& call_;
  int64_t cells_;
  Workspace<int> numbers_;
  Workspace<Entry<C>> entries_;
};

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
