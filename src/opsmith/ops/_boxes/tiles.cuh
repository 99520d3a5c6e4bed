// Gradients of boxes without atomics: a block makes a tile of an image, from the boxes that touch it, in their order.
// For roi_align and roi_pool.
//
// Adding up box by box would need an atomic addition for each tap, whose order, and with it the result, is another each
// time, and which 16-bit types round each time. Here each pixel is written once. A block finds its boxes by looking at
// all of them: a comparison a thread, which for a thousand boxes takes a few microseconds, as long as a sort that puts
// them in lists beforehand, and needs no room for lists.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/lanes.h>

namespace opsmith::ops::boxes {
namespace {

constexpr int piece_bins = 8;  // along an axis; boxes with more bins are taken piece by piece

// How the tiles of a call lie: the grid's y counts images, and its x the parts of one, which are a tile and some
// channels. And the pieces of its boxes.
struct Tiling {
  unsigned parts, across, chunks;                 // across: tiles along x
  unsigned pieces, pieces_of_box, pieces_across;  // of all boxes, of a box, and of a box along x
};

// Its first pixel. In 32 bits, as all that a thread keeps beside its sums; tile_images checks that they suffice.
struct Tile {
  unsigned image, row, column;
};

// A piece of a box: its bins from (row, column) on.
struct Piece {
  unsigned roi, row, column;

  __device__ Piece(const Tiling& tiling, unsigned index) : roi(index), row(0), column(0) {
    if (tiling.pieces_of_box == 1) return;  // most often: spare it the divisions
    const unsigned part = index % tiling.pieces_of_box;
    roi = index / tiling.pieces_of_box;
    row = part / tiling.pieces_across * piece_bins;
    column = part % tiling.pieces_across * piece_bins;
  }
};

// For images [images, C, height, width] in tiles, and the results of boxes, [K, C, height, width].
template <class T, class U>
Tiling tile_images(const char* op, const View<T, 4>& images, const View<U, 4>& results, int rows, int columns,
                   int channels) {
  const auto pieces = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  // A thread's index is added to some of them.
  const auto count = [&](int64_t n) {
    constexpr int64_t most = (int64_t{1} << 31) - 1;
    if (n > most) fail(op, "() takes up to ", most, " parts of images and of boxes; found ", n);
    return static_cast<unsigned>(n);
  };
  const int64_t across = pieces(images.size[3], columns), down = pieces(images.size[2], rows);
  const int64_t chunks = pieces(images.size[1], channels);
  const int64_t pieces_across = pieces(results.size[3], piece_bins);
  const int64_t pieces_of_box = pieces_across * pieces(results.size[2], piece_bins);
  for (const int64_t n : {across * columns, down * rows, chunks * channels, images.size[0]}) count(n);
  return {count(across * down * chunks),          count(across),        count(chunks),
          count(results.size[0] * pieces_of_box), count(pieces_of_box), count(pieces_across)};
}

inline dim3 grid_of(const Tiling& tiling, int64_t images) {
  return {blocks_for(tiling.parts, 1), static_cast<unsigned>(images < 65535 ? images : 65535)};
}

// Appends to `list` which of the next pieces, one for each thread, touch a tile, in their order; returns how many.
template <int threads, class F>
__device__ int append(unsigned next, unsigned pieces, const F& touches, unsigned* list) {
  constexpr int warps = threads / lanes;
  __shared__ int hits[warps];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / lanes, lane = thread % lanes;
  const unsigned index = next + thread;
  const bool hit = index < pieces && touches(index);
  const unsigned own = lanes_where(hit);
  if (lane == 0) hits[warp] = __popc(own);
  __syncthreads();
  int before = 0, all = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += hits[w];
    all += hits[w];
  }
  if (hit) list[before + __popc(own & ((1u << lane) - 1))] = index;
  __syncthreads();
  return all;
}

// Calls f(list, count) for the pieces that touch a tile, in their order, up to `batch` at a time. To be called by all
// threads of a block; f ends with a barrier.
template <int threads, int batch, class Touches, class F>
__device__ void for_each_batch(unsigned pieces, const Touches& touches, const F& f) {
  __shared__ unsigned list[batch - 1 + threads];
#pragma unroll 1
  for (unsigned next = 0; next < pieces;) {
    int count = 0;
#pragma unroll 1
    for (; count < batch && next < pieces; next += threads) {
      count += append<threads>(next, pieces, touches, list + count);
    }
#pragma unroll 1
    for (int begin = 0; begin < count; begin += batch) {
      f(list + begin, count - begin < batch ? count - begin : batch);
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::boxes
