// From the gradients of the samples to those of pixels, on a GPU.
//
// A pixel's gradient is gathered from the lists of the four cells around it, in their order, so there are no atomics
// and results do not change from run to run. A warp has a strip of pixels and walks along the cells above and below it,
// so that a sample's gradient is read once for the two pixels at its left and right.
#pragma once

#include "backward_points.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// A block of gather_pixels has 8 x 4 pixels of some channels, and a warp a strip of four.
constexpr int strip = 4, strip_cells = 2 * (strip + 1);
constexpr int batch = 4;  // gradients that are on their way at once
static_assert(patch / strip == tile_threads / lanes, "each warp has a strip");

// How the blocks lie that own pixels. The channels of a block are of one offset group.
struct PixelGrid {
  int across, down, parts;  // patches along x and y, and shares of an offset group's channels
};

// Between the pieces of an image the sums are in `total`, [pixel][channel]; after the last they are the gradient.
template <class T, bool has_vectors>
__global__ void __launch_bounds__(tile_threads, sizeof(T) == 8 ? 1 : 4)
    gather_pixels(Convolution call, Piece piece, PixelGrid grid, Lists<compute_t<T>> lists, const T* grad_samples,
                  compute_t<T>* total, View<T, 4> grad_input) {
  using C = compute_t<T>;
  constexpr int width = chunk_width<T>, share = lanes * width, stride = share + (is_half<T> ? 2 : 1);
  __shared__ T tile[patch * stride];
  const int block = static_cast<int>(blockIdx.x), offset_groups = static_cast<int>(call.offset_groups);
  const int rest = block / grid.across / grid.down, owner = rest / grid.parts;
  const int image = owner / offset_groups, offset_group = owner % offset_groups;
  const int64_t behind = (offset_group + 1) * call.offset_group_channels();
  const int64_t first = offset_group * call.offset_group_channels() + rest % grid.parts * share;
  const int64_t top = block / grid.across % grid.down * patch_height, left = block % grid.across * patch_width;
  const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  const int64_t y = top + warp / (patch_width / strip), x = left + warp % (patch_width / strip) * strip;
  const bool is_first = piece.first == 0, is_last = piece.first + piece.positions == call.positions();
  const int64_t channel = first + lane * width;
  const int own = behind - channel < width ? static_cast<int>(behind - channel) : width;
  const T* const gradients = grad_samples + channel;

  // Lane 2 k + r has the list of the cell k - 1 further than the strip's first pixel, r = 0 above and r = 1 below, and
  // counts the points of this one and those before.
  int begin = 0, behind_cell = 0;
  const int64_t cell_row = y + lane % 2, cell_column = x + lane / 2;
  if (lane < strip_cells && cell_row < lists.high && cell_column < lists.wide) {
    const int64_t owned = (piece.image - lists.piece.image + image) * offset_groups + offset_group;
    const int64_t cell = (owned * lists.high + cell_row) * lists.wide + cell_column;
    behind_cell = lists.counts[cell];
    begin = lists.ends[cell] - behind_cell;
  }
#pragma unroll
  for (int apart = 1; apart < strip_cells; apart *= 2) {
    const int before = shuffle(behind_cell, (lane - apart) % lanes);
    if (lane >= apart) behind_cell += before;
  }
  const int first_source =
      static_cast<int>((piece.image - lists.piece.image) * piece.positions * call.taps());  // of the piece

  C sum[width] = {}, next[width] = {};  // of the pixels at the left and at the right of a cell
  int column = 0;
  // The pixel at the left has all that it gets. The strip's first cells begin at another strip's pixel.
  const auto finish_column = [&] {
    const int64_t pixel = x + column - 1;
    if (column > 0 && pixel < call.width && y < call.height) {
      C* const kept = total + (y * call.width + pixel) * call.channels + channel;
      T* const to = tile + ((y - top) * patch_width + pixel - left) * stride + lane * width;
#pragma unroll
      for (int c = 0; c < width; ++c) {
        if (c >= own) continue;
        if (!is_first) sum[c] += kept[c];
        if (!is_last) kept[c] = sum[c];
        to[c] = T(sum[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < width; ++c) {
      sum[c] = next[c];
      next[c] = 0;
    }
    ++column;
  };
  const int all = shuffle(behind_cell, strip_cells - 1);
  int column_end = shuffle(behind_cell, 1);
  for (int start = 0; start < all; start += lanes) {
    // Each lane finds one of the next 32 points.
    const int some = all - start < lanes ? all - start : lanes;
    const int point = lane < some ? start + lane : start;
    int cell = 0;
    for (int k = 0; k < strip_cells - 1; ++k) cell += shuffle(behind_cell, k) <= point;
    const int before = shuffle(behind_cell, (cell + lanes - 1) % lanes);
    const Entry<C> entry = lists.entries[shuffle(begin, cell) + point - (cell > 0 ? before : 0)];
    const C share_y = entry.mask * (cell % 2 == 1 ? C(1) - entry.below : entry.below);
    const C at_left = share_y * (C(1) - entry.right), at_right = share_y * entry.right;
    const int source = entry.source - first_source;
    for (int k = 0; k < some; k += batch) {
      Chunk gradient[batch] = {};
#pragma unroll
      for (int u = 0; u < batch; ++u) {
        const int64_t from = shuffle(source, k + u < some ? k + u : k);
        gradient[u] = load_channels<has_vectors>(gradients + from * call.channels, own);
      }
#pragma unroll
      for (int u = 0; u < batch; ++u) {
        const C weight = shuffle(at_left, k + u), other = shuffle(at_right, k + u);
        if (k + u >= some) continue;
        while (start + k + u >= column_end) {
          finish_column();
          column_end = shuffle(behind_cell, 2 * column + 1);
        }
        C wide[width];
        widen<T>(gradient[u], wide);
#pragma unroll
        for (int c = 0; c < width; ++c) {
          sum[c] += weight * wide[c];
          next[c] += other * wide[c];
        }
      }
    }
  }
  while (column <= strip) finish_column();
  if (!is_last) return;
  __syncthreads();

  // Threads next to each other write what lies next to each other.
  const int count = static_cast<int>(behind - first < share ? behind - first : share);
  const bool by_channel = grad_input.stride[1] == 1;
  for (int n = threadIdx.x; n < patch * count; n += tile_threads) {
    const int pixel = by_channel ? n / count : n % patch, c = by_channel ? n % count : n / patch;
    const int64_t row = top + pixel / patch_width, at = left + pixel % patch_width;
    if (row < call.height && at < call.width) {
      grad_input(piece.image + image, first + c, row, at) = tile[pixel * stride + c];
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
