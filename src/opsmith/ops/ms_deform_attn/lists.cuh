// Which points read a pixel: lists of the points of one head of one image, by pixel, on a GPU.
//
// A counting sort: a point belongs to the first of its four pixels that is there. Points are counted by pixel, and each
// remembers how many were there before it; each pixel gets room for its list; points go there in the order in which
// they came, and then each to its rank among those of its pixel. So the lists do not depend on the order in which
// threads come, only the room that they have does. Ranking compares all points of a pixel with each other, which are a
// few, unless most of a level's points lie at one place.
#pragma once

#include <opsmith/workspace.h>

#include "../_gpu/allot.cuh"
#include "gpu_call.cuh"
#include "level_range.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

// A point in its pixel's list: its query and its level, which of its corners the pixel is, and its weights.
template <class C>
struct alignas(4 * sizeof(C)) Entry {
  uint32_t packed;
  C below, right, weight;
};

// How entries have a query, a level and a corner in 32 bits.
struct Packing {
  int level_bits;

  // Throws where there is no room for them.
  template <class T>
  static Packing of(const Call<T>& call) {
    int bits = 0;
    while (int64_t{1} << bits < call.locations.size[3]) ++bits;
    const int64_t most_queries = bits < 30 ? int64_t{1} << (30 - bits) : 1;
    if (call.locations.size[1] > most_queries) {
      fail("ms_deform_attn() on a GPU takes up to ", most_queries, " queries with ", call.locations.size[3],
           " levels; found ", call.locations.size[1]);
    }
    return {bits};
  }

  __device__ uint32_t pack(int query, int level, int corner) const {
    return (static_cast<uint32_t>(query) << level_bits | static_cast<uint32_t>(level)) << 2 |
           static_cast<uint32_t>(corner);
  }
  __device__ static int corner(uint32_t packed) { return static_cast<int>(packed & 3); }
  __device__ int level(uint32_t packed) const {
    return static_cast<int>(packed >> 2 & ((uint32_t{1} << level_bits) - 1));
  }
  __device__ int query(uint32_t packed) const { return static_cast<int>(packed >> 2 >> level_bits); }
};

// Lists are counted [image][head][pixel], from the first image on. The list of a pixel begins at its `begins`. A point
// has the number of its list, or -1, in `list_of`, and in `before` how many had come to it before.
template <class C>
struct Lists {
  int64_t image;
  int points, pixels;
  Packing packing;
  int *counts, *begins, *used, *is_disjoint;
  int *list_of, *before, *unordered;
  Entry<C>* entries;
  LevelRange* levels;

  // Where the entries of a list begin and end.
  __device__ int2 range(int64_t list) const { return make_int2(begins[list], begins[list] + counts[list]); }
};

// A point by its number, [image][head][query][tap].
struct PointOf {
  int64_t image;
  unsigned owner, head, query, tap;  // the owner is [image][head], from the lists' first image on

  template <class T>
  __device__ PointOf(const Call<T>& call, int64_t first_image, unsigned n) {
    const unsigned taps = static_cast<unsigned>(call.taps()), queries = static_cast<unsigned>(call.queries());
    tap = n % taps;
    query = n / taps % queries;
    owner = n / taps / queries;
    head = owner % static_cast<unsigned>(call.heads());
    image = first_image + owner / static_cast<unsigned>(call.heads());
  }
};

// The first corner of a sample that is there, or -1.
template <class C>
__device__ int first_corner(const Sample<C>& sample) {
  for (int k = 0; k < 4; ++k) {
    if (sample.pixel[k] >= 0) return k;
  }
  return -1;
}

// Whether no two levels have a pixel in common.
template <class T>
__device__ bool are_disjoint(const Call<T>& call) {
  const int levels = static_cast<int>(call.shapes.size[0]);
  for (int l = 0; l < levels; ++l) {
    const Level level = call.level(l);
    if (level.height <= 0 || level.width <= 0 || level.start >= call.pixels()) continue;
    const int64_t end = level.start + pixels_of(level);
    for (int other = 0; other < levels; ++other) {
      const Level one = call.level(other);
      if (other != l && one.height > 0 && one.width > 0 && one.start >= level.start && one.start < end) return false;
    }
  }
  return true;
}

// Clears the counts, and finds out what the levels are.
template <class T>
__global__ void __launch_bounds__(block_threads) clear(Call<T> call, Lists<compute_t<T>> lists) {
  const int64_t first = blockIdx.x * int64_t{block_threads} + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * block_threads;
  if (first == 0) *lists.used = 0, *lists.is_disjoint = are_disjoint(call);
  for (int64_t l = first; l < call.shapes.size[0]; l += step) {
    lists.levels[l] = LevelRange(call.level(static_cast<int>(l)));
  }
  for (int64_t n = first; n < lists.pixels; n += step) lists.counts[n] = 0;
}

template <class T>
__global__ void __launch_bounds__(block_threads) count_points(Call<T> call, Lists<compute_t<T>> lists) {
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < lists.points;
       n += int64_t{gridDim.x} * block_threads) {
    const PointOf at(call, lists.image, static_cast<unsigned>(n));
    const Sample<compute_t<T>> sample = call.sample(at.image, at.query, at.head, at.tap);
    const int corner = first_corner(sample);
    const int list =
        corner < 0 ? -1 : static_cast<int>(at.owner) * call.pixels() + static_cast<int>(sample.pixel[corner]);
    lists.list_of[n] = list;
    if (list >= 0) lists.before[n] = atomicAdd(lists.counts + list, 1);
  }
}

// Gives each pixel the room of its list.
template <class C>
__global__ void __launch_bounds__(block_threads) allot_pixels(Lists<C> lists) {
  for (int64_t begin = blockIdx.x * int64_t{block_threads}; begin < lists.pixels;
       begin += int64_t{gridDim.x} * block_threads) {
    const int64_t own = begin + threadIdx.x;
    const int room = gpu::allot<block_threads>(own < lists.pixels ? lists.counts[own] : 0, lists.used);
    if (own < lists.pixels) lists.begins[own] = room;
    __syncthreads();
  }
}

template <class C>
__global__ void __launch_bounds__(block_threads) scatter_points(Lists<C> lists) {
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < lists.points;
       n += int64_t{gridDim.x} * block_threads) {
    const int list = lists.list_of[n];
    if (list >= 0) lists.unordered[lists.begins[list] + lists.before[n]] = static_cast<int>(n);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) rank_points(Call<T> call, Lists<compute_t<T>> lists) {
  const int used = *lists.used;
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < used;
       n += int64_t{gridDim.x} * block_threads) {
    const int own = lists.unordered[n], list = lists.list_of[own];
    const int2 range = lists.range(list);
    int rank = 0;
    for (int other = range.x; other < range.y; ++other) rank += lists.unordered[other] < own;
    const PointOf at(call, lists.image, static_cast<unsigned>(own));
    const Sample<compute_t<T>> sample = call.sample(at.image, at.query, at.head, at.tap);
    const int level = static_cast<int>(at.tap) / call.points();
    lists.entries[range.x + rank] = {lists.packing.pack(at.query, level, first_corner(sample)), sample.below,
                                     sample.right, call.weight(at.image, at.query, at.head, at.tap)};
  }
}

// The lists of some images at a time, and their memory.
template <class T>
class ListRoom {
  using C = compute_t<T>;

 public:
  // Images whose points are listed at once: as many as have 2^24 points and 2^26 elements of lists, and at least one.
  static int64_t images_at_once(const Call<T>& call, int64_t list_elements) {
    const int64_t points = int64_t{call.heads()} * call.queries() * call.taps();
    const int64_t elements = call.heads() * call.value.size[1] * list_elements;
    int64_t most = call.images();
    if (points > 0 && (int64_t{1} << 24) / points < most) most = (int64_t{1} << 24) / points;
    if (elements > 0 && (int64_t{1} << 26) / elements < most) most = (int64_t{1} << 26) / elements;
    return most < 1 ? 1 : most;
  }

  ListRoom(const Call<T>& call, int64_t images)
      : call_(call),
        packing_(Packing::of(call)),
        pixels_(images * call.heads() * call.value.size[1]),
        points_(points_of(images)),
        numbers_(2 * pixels_ + 2 + 3 * points_),
        entries_(points_),
        levels_(call.shapes.size[0]) {
    if (pixels_ >= int64_t{1} << 31) {
      fail("ms_deform_attn() on a GPU takes fewer than 2^31 pixels of all heads of an image; found ", pixels_);
    }
  }

  Lists<C> list(int64_t image, int64_t images, Stream stream) const {
    const int64_t pixels = images * call_.heads() * call_.value.size[1], points = points_of(images);
    Lists<C> lists{image, static_cast<int>(points), static_cast<int>(pixels), packing_};
    int* room = numbers_.data;
    const auto take = [&](int64_t count) {
      int* const taken = room;
      room += count;
      return taken;
    };
    lists.counts = take(pixels_);
    lists.begins = take(pixels_);
    lists.used = take(1);
    lists.is_disjoint = take(1);
    lists.list_of = take(points_);
    lists.before = take(points_);
    lists.unordered = take(points_);
    lists.entries = entries_.data;
    lists.levels = levels_.data;
    const unsigned blocks = blocks_for(points, block_threads);
    clear<T><<<blocks_for(pixels, block_threads), block_threads, 0, stream>>>(call_, lists);
    count_points<T><<<blocks, block_threads, 0, stream>>>(call_, lists);
    allot_pixels<C><<<blocks_for(pixels, block_threads), block_threads, 0, stream>>>(lists);
    scatter_points<C><<<blocks, block_threads, 0, stream>>>(lists);
    rank_points<T><<<blocks, block_threads, 0, stream>>>(call_, lists);
    return lists;
  }

 private:
  int64_t points_of(int64_t images) const { return images * call_.heads() * call_.queries() * call_.taps(); }

  const Call<T>& call_;
  Packing packing_;
  int64_t pixels_, points_;
  Workspace<int> numbers_;
  Workspace<Entry<C>> entries_;
  Workspace<LevelRange> levels_;
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
