// Which points read a pixel: lists of the points of one head of one image, by pixel, on a GPU.
//
// A counting sort: a point belongs to the first of its four pixels that is there. Points are counted by pixel; each
// pixel gets room for its list; points go there in any order, and then each to its rank among those of its pixel. So
// the lists do not depend on the order in which threads come, only the room that they have does. Ranking compares all
// points of a pixel with each other, which are a few, unless most of a level's points lie at one place.
#pragma once

#include <opsmith/workspace.h>

#include "../_gpu/allot.cuh"
#include "gpu_call.cuh"

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

// Lists are counted [image][head][pixel], from the first image on. The list of a pixel ends at its `ends`. A point has
// the number of its list, or -1, in `list_of`.
template <class C>
struct Lists {
  int64_t image;
  int points, pixels;
  Packing packing;
  int *counts, *ends, *used, *list_of, *unordered;
  Entry<C>* entries;
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

__global__ void __launch_bounds__(block_threads) clear(int* to, int count) {
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * block_threads) {
    to[n] = 0;
  }
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
    if (list >= 0) atomicAdd(lists.counts + list, 1);
  }
}

// Gives each pixel the room of its list: `ends` is where it begins.
template <class C>
__global__ void __launch_bounds__(block_threads) allot_pixels(Lists<C> lists) {
  for (int64_t begin = blockIdx.x * int64_t{block_threads}; begin < lists.pixels;
       begin += int64_t{gridDim.x} * block_threads) {
    const int64_t own = begin + threadIdx.x;
    const int room = gpu::allot<block_threads>(own < lists.pixels ? lists.counts[own] : 0, lists.used);
    if (own < lists.pixels) lists.ends[own] = room;
    __syncthreads();
  }
}

template <class C>
__global__ void __launch_bounds__(block_threads) scatter_points(Lists<C> lists) {
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < lists.points;
       n += int64_t{gridDim.x} * block_threads) {
    const int list = lists.list_of[n];
    if (list >= 0) lists.unordered[atomicAdd(lists.ends + list, 1)] = static_cast<int>(n);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) rank_points(Call<T> call, Lists<compute_t<T>> lists) {
  const int used = *lists.used;
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < used;
       n += int64_t{gridDim.x} * block_threads) {
    const int own = lists.unordered[n], list = lists.list_of[own];
    const int end = lists.ends[list], begin = end - lists.counts[list];
    int rank = 0;
    for (int other = begin; other < end; ++other) rank += lists.unordered[other] < own;
    const PointOf at(call, lists.image, static_cast<unsigned>(own));
    const Sample<compute_t<T>> sample = call.sample(at.image, at.query, at.head, at.tap);
    const int level = static_cast<int>(at.tap) / call.points();
    lists.entries[begin + rank] = {lists.packing.pack(at.query, level, first_corner(sample)), sample.below,
                                   sample.right, call.weight(at.image, at.query, at.head, at.tap)};
  }
}

// The lists of some images at a time, and their memory.
template <class T>
class ListRoom {
  using C = compute_t<T>;

 public:
  // Images whose points are listed at once: as many as have 2^24 points and 2^28 pixels, and at least one.
  static int64_t images_at_once(const Call<T>& call) {
    const int64_t points = int64_t{call.heads()} * call.queries() * call.taps();
    const int64_t pixels = call.heads() * call.value.size[1];
    int64_t most = call.images();
    if (points > 0 && (int64_t{1} << 24) / points < most) most = (int64_t{1} << 24) / points;
    if (pixels > 0 && (int64_t{1} << 28) / pixels < most) most = (int64_t{1} << 28) / pixels;
    return most < 1 ? 1 : most;
  }

  ListRoom(const Call<T>& call, int64_t images)
      : call_(call),
        packing_(Packing::of(call)),
        pixels_(images * call.heads() * call.value.size[1]),
        points_(points_of(images)),
        numbers_(2 * pixels_ + 1 + 2 * points_),
        entries_(points_) {
    if (pixels_ >= int64_t{1} << 31) {
      fail("ms_deform_attn() on a GPU takes fewer than 2^31 pixels of all heads of an image; found ", pixels_);
    }
  }

  Lists<C> list(int64_t image, int64_t images, Stream stream) const {
    const int64_t pixels = images * call_.heads() * call_.value.size[1], points = points_of(images);
    // How much room is used is counted behind the counts.
    int* const ends = numbers_.data + pixels_ + 1;
    const Lists<C> lists{image,
                         static_cast<int>(points),
                         static_cast<int>(pixels),
                         packing_,
                         numbers_.data,
                         ends,
                         numbers_.data + pixels,
                         ends + pixels_,
                         ends + pixels_ + points_,
                         entries_.data};
    const unsigned blocks = blocks_for(points, block_threads);
    clear<<<blocks_for(pixels + 1, block_threads), block_threads, 0, stream>>>(lists.counts,
                                                                               static_cast<int>(pixels) + 1);
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
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
