// roi_align on a GPU of contiguous features and many boxes: a block lays a channel of an image in shared memory as a
// whole, and makes the bins of all boxes of the image from there.
//
// A tap of a contiguous feature is a few bytes of a line that has nothing else of its bin. In shared memory it costs no
// more than these. Words of 32 bits have a pixel's channel, in 16-bit types two, so that a tap is read once for both.
//
// A warp makes a box, and all its lanes read pixels of one row at a time: in boxes of up to 32 pixels across no two of
// these are in one bank. Four lanes have a column of bins, one for each pixel along x that weighs in it, or with more
// than eight columns two lanes. When they have added up some rows of bins they exchange sums, so that each of them
// makes and writes a bin.
#pragma once

#include <opsmith/divide.h>
#include <opsmith/lanes.h>
#include <opsmith/workspace.h>

#include "../_gpu/shared_memory.cuh"
#include "plane_load.cuh"
#include "pool.cuh"

namespace opsmith::ops::roi_align {
namespace {

// Sums over n lanes next to each other, of n values that each of them has: lane q of them gets the sum of value q. As
// sum_over_lanes of lanes.h, of which nvcc 13.0 makes other code here.
template <int n>
__device__ float exchange_sums(float (&value)[n], int lane) {
#pragma unroll
  for (int half = n / 2; half > 0; half /= 2) {
    const bool is_upper = (lane & half) != 0;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const float kept = is_upper ? value[k + half] : value[k], given = is_upper ? value[k] : value[k + half];
      value[k] = kept + shuffle_xor(given, half);
    }
  }
  return value[0];
}

// What a lane reads of each row of a plane: pixels that begin so many bytes behind the row.
template <int column_lanes>
struct LaneColumn {
  static constexpr int taps = PieceColumns<column_lanes>::taps;
  const char* pixel[taps];
  float weight[taps];
};

// A lane's part of a row of bins, whose points are those of a PieceRow.
template <class T, int column_lanes, int channels>
__device__ void sum_column(const LaneColumn<column_lanes>& own, int row_bytes, uint4 points, float (&sum)[channels]) {
  constexpr int taps = LaneColumn<column_lanes>::taps;
  const unsigned place[plane_samples] = {points.x, points.y};
  const float above[plane_samples] = {__uint_as_float(points.z), __uint_as_float(points.w)};
  float down[taps][channels] = {};
#pragma unroll
  for (int s = 0; s < plane_samples; ++s) {
#pragma unroll
    for (int t = 0; t < taps; ++t) {
      const char* const at = own.pixel[t] + place[s];
      const auto add = [&](const char* pixel, float weight) {
        const auto word = *reinterpret_cast<const Vector<T, channels>*>(pixel);
#pragma unroll
        for (int c = 0; c < channels; ++c) down[t][c] += weight * static_cast<float>(word.item[c]);
      };
      add(at, 1.0f - above[s]);
      if (above[s] > 0) add(at + row_bytes, above[s]);  // what weighs 0 must not take part
    }
  }
#pragma unroll
  for (int c = 0; c < channels; ++c) {
    sum[c] = own.weight[0] * down[0][c];
    if constexpr (taps == 2) sum[c] += own.weight[1] * down[1][c];
  }
}

// Calls f with `count`, which is at most `most`, as a constant; with 0 it does nothing.
template <int most, class F>
__device__ void with_constant(int count, const F& f) {
  if constexpr (most > 0) {
    if (count == most) {
      f(std::integral_constant<int, most>{});
    } else {
      with_constant<most - 1>(count, f);
    }
  }
}

// What a lane reads of a piece's record, which is on its way while another piece is made.
template <int column_lanes>
struct PieceReader {
  using Columns = PieceColumns<column_lanes>;

  const char *of_rows, *of_columns;  // of box 0's first piece
  unsigned piece_bytes, box_bytes;   // from piece to piece, and from box to box
  uint2 rows;                        // half a PieceRow; lanes behind the last have the last one
  unsigned place[Columns::taps];
  float weight[Columns::taps];

  __device__ PieceReader(const char* records, const Pieces& pieces, int lane)
      : of_rows(records + sizeof(Columns) + min(lane, 2 * pieces.rows - 1) * sizeof(rows)),
        of_columns(records + lane * sizeof(place[0])),
        piece_bytes(record_bytes<column_lanes>(pieces)),
        box_bytes(pieces.count * piece_bytes) {}
  __device__ void read(int box, int piece) {
    const uint64_t at = static_cast<uint64_t>(static_cast<unsigned>(box)) * box_bytes + piece * piece_bytes;
    rows = *reinterpret_cast<const uint2*>(of_rows + at);
#pragma unroll
    for (int t = 0; t < Columns::taps; ++t) {
      place[t] = *reinterpret_cast<const unsigned*>(of_columns + at + offsetof(Columns, place) +
                                                    t * sizeof(Columns::place[0]));
      weight[t] =
          *reinterpret_cast<const float*>(of_columns + at + offsetof(Columns, weight) + t * sizeof(Columns::weight[0]));
    }
  }
};

// Where a piece lies in its box: its number, and its first row and column of bins. `is_whole`: a box is one piece.
template <bool is_whole>
struct PiecePlace {
  int piece = 0, top = 0, left = 0;

  // Goes on to the next piece; returns whether that is the first one of another box.
  template <class T>
  __device__ bool advance(const Pieces& pieces, const View<T, 4>& out) {
    if constexpr (!is_whole) {
      ++piece, left += pieces.columns;
      if (left < out.size[3]) return false;
      left = 0, top += pieces.rows;
      if (top < out.size[2]) return false;
      piece = 0, top = 0;
    }
    return true;
  }
};

// Makes the boxes in a list, of which this warp has every pool_plane_warps-th. `own_rows` has room for a piece's rows.
//
// The pieces of a box are made one after another, as neighbours have parts of the same lines of the result: 1,024 boxes
// of 28 x 28 bins took 1.56 times as long with a piece of all boxes before the next one, in bfloat16 1.21 times (256
// channels of two images of 200 x 272 pixels, on an H200). Where boxes are one piece the steps from piece to piece are
// left out, with which 7 x 7 bins took 1.17 and 1.25 times as long.
template <class T, int column_lanes, bool is_whole>
__device__ void make_boxes(const int* list, int boxes, const char* records, const Pieces& pieces, const char* room,
                           int row_bytes, PieceRow* own_rows, int64_t channel, const View<T, 4>& out) {
  constexpr int channels = plane_channels<T>, rows_at_once = column_lanes / channels;
  const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  // Of the bins of its column that are made at once, in some rows or some channels, a lane writes one.
  const int column = lane / column_lanes, row = lane % column_lanes / channels, second = lane % channels;
  const bool has_channel = channel + second < out.size[1];
  T* const corner = out.data + (channel + second) * out.stride[1] + row * out.stride[2] + column * out.stride[3];
  PieceReader<column_lanes> reader(records, pieces, lane);
  // A box's number is read two boxes early, and what is known of a piece one piece early.
  const int *next = list + warp, *const end = list + boxes;
  int box = next[0], next_box = next[pool_plane_warps];
  PiecePlace<is_whole> at;
  reader.read(box, at.piece);
#pragma unroll 1
  while (next < end) {
    sync_lanes();  // before the rows of the last piece are written over
    if (lane < 2 * pieces.rows) reinterpret_cast<uint2*>(own_rows)[lane] = reader.rows;
    LaneColumn<column_lanes> own;
#pragma unroll
    for (int t = 0; t < own.taps; ++t) own.pixel[t] = room + reader.place[t], own.weight[t] = reader.weight[t];
    T* to = corner + box * out.stride[0] + at.top * out.stride[2] + at.left * out.stride[3];
    const int bin_rows = min(pieces.rows, static_cast<int>(out.size[2]) - at.top);
    const bool writes = column < min(pieces.columns, static_cast<int>(out.size[3]) - at.left) && has_channel;
    if (at.advance(pieces, out)) {
      box = next_box;
      next_box = next[2 * pool_plane_warps];
      next += pool_plane_warps;
    }
    reader.read(box, at.piece);
    sync_lanes();
    const uint4* points = reinterpret_cast<const uint4*>(own_rows);
    const auto make = [&](auto constant) {
      constexpr int count = decltype(constant)::value;
      float value[column_lanes] = {};
#pragma unroll
      for (int r = 0; r < count; ++r) {
        float sum[channels];
        sum_column<T>(own, row_bytes, points[r], sum);
#pragma unroll
        for (int c = 0; c < channels; ++c) value[r * channels + c] = sum[c];
      }
      const float sum = exchange_sums(value, lane);
      if (writes && row < count) *to = static_cast<T>(sum);
      points += count, to += count * out.stride[2];
    };
    int rest = bin_rows;
#pragma unroll 1
    for (; rest >= rows_at_once; rest -= rows_at_once) make(std::integral_constant<int, rows_at_once>{});
    with_constant<rows_at_once - 1>(rest, make);
  }
}

// A block has all the shared memory, so it may have all registers, too: told of this, the compiler reads further ahead.
template <class T, int column_lanes, bool is_whole>
__global__ void __launch_bounds__(pool_plane_threads, 1)
    pool_planes(View<const T, 4> features, BoxLists lists, const char* records, Plane plane, bool vectors,
                Pieces pieces, int64_t parts, View<T, 4> out) {
  constexpr int channels = plane_channels<T>;
  extern __shared__ uint4 shared[];
  char* const room = reinterpret_cast<char*>(shared);
  auto* const own_rows = reinterpret_cast<PieceRow*>(room + plane.bytes()) + threadIdx.x / lanes * pieces.rows;
  const int64_t groups = (features.size[1] + channels - 1) / channels;
  bool is_first = true;
#pragma unroll 1
  for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
    const int64_t image = part / groups, channel = part % groups * channels;
    load_plane(features, image, channel, vectors, plane, room);
    // What find_points writes is not read before this, and what it does not write was there before it.
    if (is_first) wait_for_earlier_kernels();
    is_first = false;
    __syncthreads();
    make_boxes<T, column_lanes, is_whole>(lists.of(image), lists.count[image], records, pieces, room, plane.pitch * 4,
                                          own_rows, channel, out);
    __syncthreads();  // before the next plane takes its place
  }
}

template <class T, int column_lanes>
bool launch_pool_pieces(const View<const T, 4>& features, const Pooling& pooling, const View<const float, 2>& boxes,
                        const View<T, 4>& out, int64_t parts, Stream stream) {
  const int64_t images = features.size[0], count = out.size[0];
  const Plane plane{static_cast<int>(pooling.height), static_cast<int>(pooling.width),
                    static_cast<int>(pooling.width) / 4 * 4 + 4};
  const auto divide = [](int64_t n, int64_t by) { return static_cast<int>(divide_up(n, by)); };
  const int down = divide(out.size[2], Pieces::most_rows);
  const int across = divide(out.size[3], PieceColumns<column_lanes>::most);
  const Pieces pieces{divide(out.size[2], down), divide(out.size[3], across), across, down * across};
  const int bytes = plane.bytes() + pool_plane_warps * pieces.rows * static_cast<int>(sizeof(PieceRow));
  if (bytes > gpu::most_shared_memory()) return false;
  bool vectors = features.stride[3] == 1 && plane.width % 4 == 0 && is_aligned(features.data, 4 * sizeof(T));
  for (int dim = 0; dim < 3; ++dim) vectors = vectors && features.stride[dim] % 4 == 0;
  const Workspace<char> records(count * pieces.count * record_bytes<column_lanes>(pieces));
  const Workspace<int> counts(images), numbers(images * (count + BoxLists::ahead));
  const BoxLists lists{counts.data, numbers.data, count};
  const unsigned blocks = static_cast<unsigned>(images) + blocks_for(count, point_threads / lanes);
  find_points<column_lanes><<<blocks, point_threads, 0, stream>>>(boxes, pooling, plane, pieces, lists, records.data);
  const auto launch = [&](auto is_whole) {
    constexpr auto* kernel = pool_planes<T, column_lanes, decltype(is_whole)::value>;
    gpu::allow_shared_memory(kernel, bytes);
    launch_early<kernel>("roi_align_sized", blocks_for(parts, 1), pool_plane_threads, bytes, stream, features, lists,
                         records.data, plane, vectors, pieces, parts, out);
  };
  pieces.count == 1 ? launch(std::true_type{}) : launch(std::false_type{});
  return true;
}

// Returns whether this is the way for a call; if not, nothing is done.
template <class T>
bool launch_pool_planes(const View<const T, 4>& features, const Pooling& pooling, const View<const float, 2>& boxes,
                        const View<T, 4>& out, Stream stream) {
  if constexpr (sizeof(T) == 8) {
    return false;
  } else {
    constexpr int64_t most_pixels = 1 << 16;  // of a plane; no GPU has the shared memory for more
    constexpr int64_t most_listed = 1 << 24;  // of boxes, once for each image
    const int64_t images = features.size[0], pixels = pooling.height * pooling.width, count = out.size[0];
    const int64_t parts = images * divide_up(features.size[1], plane_channels<T>);  // planes
    if (pooling.sampling_ratio != plane_samples || pixels == 0 || pooling.height > most_pixels ||
        pooling.width > most_pixels || pixels > most_pixels || images * count > most_listed) {
      return false;
    }
    // All pixels are read once, and it takes blocks to fill a GPU.
    if (count * out.size[2] * out.size[3] * 8 < images * pixels || parts < 128) return false;
    return out.size[3] <= PieceColumns<4>::most
               ? launch_pool_pieces<T, 4>(features, pooling, boxes, out, parts, stream)
               : launch_pool_pieces<T, 2>(features, pooling, boxes, out, parts, stream);
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_align
