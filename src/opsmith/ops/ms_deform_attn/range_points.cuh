// The points that reach a range of pixels, in a block's shared memory, on a GPU.
//
// A block looks through all points of a level, and passes most over by their y alone. Of the others, as many at a time
// as it has threads, each pixel has a bit for each of their corners: whichever thread sets a bit first, those who go
// through them do so in one order.
#pragma once

#include "gpu_call.cuh"
#include "level_range.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

constexpr int range_pixels = 128;               // of a block, at most
constexpr int range_bytes = 16 * 1024;          // of their sums
constexpr int looked_at = 8;                    // points of a thread at once
constexpr int at_hand = block_threads;          // points whose corners have bits
constexpr int corner_words = at_hand * 4 / 32;  // of a pixel's bits
static_assert(corner_words <= 32 && range_pixels <= block_threads);

// Pixels [first, first + count) of one head of an image.
struct Range {
  int image, head, first, count;
};

// At which y a point reaches a range: from the row above the first one that the range has of a level to its last.
template <class C>
struct Rows {
  bool are_there = false;
  C from = 0, to = 0;

  Rows() = default;
  __device__ Rows(const Level& level, const Range& range) {
    const LevelRange all(level);
    const int64_t end = int64_t{range.first} + range.count;
    // A level of fewer than 2^31 pixels that begins so far in front of the first one has none of them.
    if (level.start >= end || level.start <= -most_pixels) return;
    const int64_t begins = range.first - level.start, ends = end - level.start;
    if (begins >= all.area) return;
    are_there = true;
    const unsigned first = begins > 0 ? static_cast<unsigned>(begins) / all.columns : 0;
    const unsigned last = ((ends < all.area ? static_cast<unsigned>(ends) : all.area) - 1) / all.columns;
    from = static_cast<C>(first) - C(1);
    to = last < 1u << 24 ? static_cast<C>(last + 1) : static_cast<C>(level.height);  // so many would be rounded
  }
};

template <class C>
struct RangeRoom {
  alignas(32) C sums[range_bytes / sizeof(C)];
  Vector<C, 4> share[at_hand];
  Vector<C, 2> rows[lanes];                                      // of as many levels
  alignas(16) uint32_t corners[range_pixels][corner_words + 1];  // one more: neighbours are in different banks
  alignas(16) uint32_t words[range_pixels];                      // a bit for each of those that is not zero
  alignas(16) int counts[block_threads / lanes];
  uint32_t levels;                                      // a bit for each that has pixels of the range
  int gradient[at_hand];                                // where that of the point's query is
  uint16_t found[looked_at * block_threads + at_hand];  // numbers of points

  __device__ void clear_corners() {
    constexpr Vector<uint32_t, 4> zeros{};
    constexpr int size = sizeof(corners) / sizeof(zeros);
    static_assert(sizeof(corners) % sizeof(zeros) == 0);
#pragma unroll
    for (int n = threadIdx.x; n < size; n += block_threads) {
      reinterpret_cast<Vector<uint32_t, 4>*>(&corners[0][0])[n] = zeros;
    }
    if (threadIdx.x < range_pixels) words[threadIdx.x] = 0;
  }
  __device__ void add_corner(int pixel, int corner) {
    atomicOr(&corners[pixel][corner / 32], uint32_t{1} << corner % 32);
    atomicOr(&words[pixel], uint32_t{1} << corner / 32);
  }
  // Finds out which levels from `base` on have pixels of the range, and where. For one warp; the others wait for it.
  template <class T>
  __device__ void find_levels(const Call<T>& call, const Range& range, int base) {
    const int own = static_cast<int>(threadIdx.x) % lanes, level = base + own;
    const Rows<C> of = level < call.shapes.size[0] ? Rows<C>(call.level(level), range) : Rows<C>();
    rows[own] = {of.from, of.to};
    const uint32_t there = lanes_where(of.are_there);
    if (own == 0) levels = there;
  }
};

// Goes through the corners that a pixel has bits for.
class CornersOf {
 public:
  __device__ CornersOf(const uint32_t* corners, uint32_t words) : corners_(corners), words_(words) {}

  __device__ bool has_more() const { return (words_ | bits_) != 0; }

  // The next one: four times the point's number, and which one of its corners it is.
  __device__ int next() {
    if (bits_ == 0) {
      word_ = __ffs(static_cast<int>(words_)) - 1;
      words_ &= words_ - 1;
      bits_ = corners_[word_];
    }
    const int bit = __ffs(static_cast<int>(bits_)) - 1;
    bits_ &= bits_ - 1;
    return 32 * word_ + bit;
  }

 private:
  const uint32_t* corners_;
  uint32_t words_, bits_ = 0;
  int word_ = 0;
};

// The points of one level. A thread looks at the same point of one query after the other.
template <class T>
class LevelPoints {
  using C = compute_t<T>;

 public:
  // Up to `block_threads` points of a query and 2^16 of all; 32 bits have to do for places among the locations and the
  // gradients of one image.
  static bool are_few(const Call<T>& call, const View<const T, 3>& grad_out) {
    constexpr int64_t most = int64_t{1} << 31;
    const int64_t queries = call.queries(), points = call.points();
    return points > 0 && points <= block_threads && queries * points <= 1 << 16 &&
           queries * call.locations.stride[1] < most && points * call.locations.stride[4] < most &&
           queries * grad_out.stride[1] < most;
  }

  __device__ LevelPoints(const Call<T>& call, const Range& range, int index)
      : call_(call),
        range_(range),
        index_(index),
        height_(static_cast<C>(call.shapes(index, 0))),
        points_(call.points()),
        each_(block_threads / points_) {}

  // How many queries a block looks at at once.
  __device__ int queries() const { return looked_at * each_; }

  // Finds points of queries from `begin` on whose y is in [from, to), and puts them behind the `already` ones that the
  // room has. Returns how many it then has. Their order is always the same: by warp, then by query and point.
  __device__ int find(int begin, C from, C to, int already, RangeRoom<C>& room) const {
    const int warp = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) % lanes;
    const int query = begin + static_cast<int>(threadIdx.x) / points_, point = static_cast<int>(threadIdx.x) % points_;
    // Where points do not divide a block's threads, the last of these have none.
    const int end = static_cast<int>(threadIdx.x) < each_ * points_ ? call_.queries() : 0;
    const T* const places = &call_.locations(range_.image, 0, range_.head, index_, point, 1);
    const auto stride = static_cast<int>(call_.locations.stride[1]);
    T found[looked_at];
#pragma unroll
    for (int k = 0; k < looked_at; ++k) {
      found[k] = places[query + k * each_ < end ? (query + k * each_) * stride : 0];
    }
    uint32_t reaching[looked_at];  // which lanes have one that does
    int count = 0;
#pragma unroll
    for (int k = 0; k < looked_at; ++k) {
      const C y = place(static_cast<C>(found[k]), height_);
      reaching[k] = lanes_where(query + k * each_ < end && y >= from && y < to);
      count += __popc(reaching[k]);
    }
    if (lane == 0) room.counts[warp] = count;
    __syncthreads();
    int next = already, all = already;
#pragma unroll
    for (int other = 0; other < block_threads / lanes; ++other) {
      const int theirs = room.counts[other];
      next += other < warp ? theirs : 0;
      all += theirs;
    }
#pragma unroll
    for (int k = 0; k < looked_at; ++k) {
      if (reaching[k] == 0) continue;
      if ((reaching[k] >> lane & 1) != 0) {
        const int position = next + __popc(reaching[k] & ((uint32_t{1} << lane) - 1));
        room.found[position] = static_cast<uint16_t>((query + k * each_) * points_ + point);
      }
      next += __popc(reaching[k]);
    }
    __syncthreads();
    return all;
  }

  // Sets the bits of one point, which is this thread's.
  __device__ void add(int number, int gradient_stride, RangeRoom<C>& room) const {
    const int own = static_cast<int>(threadIdx.x), query = number / points_, point = number - query * points_;
    const T* const at = &call_.locations(range_.image, query, range_.head, index_, point, 0);
    const C weight = static_cast<C>(call_.weights(range_.image, query, range_.head, index_, point));
    const Sample<C> sample = locate(static_cast<C>(at[0]), static_cast<C>(at[call_.locations.stride[5]]),
                                    call_.level(index_), call_.value.size[1]);
    room.gradient[own] = query * gradient_stride;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      room.share[own].item[k] = weight * sample.share(k);
      const int64_t pixel = sample.pixel[k] - range_.first;
      if (pixel >= 0 && pixel < range_.count) room.add_corner(static_cast<int>(pixel), 4 * own + k);
    }
  }

 private:
  const Call<T>& call_;
  const Range& range_;
  int index_;
  C height_;
  int points_, each_;
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
