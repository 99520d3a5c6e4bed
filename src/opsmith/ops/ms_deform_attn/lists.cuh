// Which points read a pixel: lists of the points of one head of one image, by pixel, on a GPU.
//
// A counting sort: a point belongs to the first of its four pixels that is there. Points are counted by pixel; each
// pixel gets room for its list; points go there in any order, and then each to its rank among those of its pixel. So
// the lists do not depend on the order in which threads come, only the room that they have does. Ranking compares all
// points of a pixel with each other, which are a few, unless most of a level's points lie at one place.
#pragma once

#include <opsmith/workspace.h>

#include "gpu_call.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

// A point in its pixel's list: its query, its level, which of its corners the pixel is, and its weights.
template <class C>
struct alignas(4 * sizeof(C)) Entry {
  uint32_t packed;
  C below, right, weight;

  __device__ static uint32_t pack(int query, int level, int corner) {
    return static_cast<uint32_t>(query) | static_cast<uint32_t>(level) << 22 | static_cast<uint32_t>(corner) << 30;
  }
  __device__ int query() const { return static_cast<int>(packed & 0x3fffff); }
  __device__ int level() const { return static_cast<int>(packed >> 22 & 0xff); }
  __device__ int corner() const { return static_cast<int>(packed >> 30); }
};

// Lists are counted [image][head][pixel], from the first image on. The list of a pixel ends at its `ends`.
template <class C>
struct Lists {
  int64_t image, points, pixels;
  int *counts, *ends, *used, *unordered;
  Entry<C>* entries;
};

// A point by its number, [image][head][query][tap].
struct PointOf {
  int64_t image, owner;  // the owner is [image][head], from the lists' first image on
  int head, query, tap;

  template <class T>
  __device__ PointOf(const Call<T>& call, int64_t first_image, int64_t n)
      : owner(n / (int64_t{call.queries()} * call.taps())),
        query(static_cast<int>(n / call.taps() % call.queries())),
        tap(static_cast<int>(n % call.taps())) {
    image = first_image + owner / call.heads();
    head = static_cast<int>(owner % call.heads());
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

__global__ void __launch_bounds__(block_threads) clear(int* to, int64_t count) {
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * block_threads) {
    to[n] = 0;
  }
}

// Calls f with each point that reads a pixel, and its list.
template <class T, class F>
__device__ void for_each_point(const Call<T>& call, const Lists<compute_t<T>>& lists, const F& f) {
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < lists.points;
       n += int64_t{gridDim.x} * block_threads) {
    const PointOf at(call, lists.image, n);
    const Sample<compute_t<T>> sample = call.sample(at.image, at.query, at.head, at.tap);
    const int corner = first_corner(sample);
    if (corner >= 0) f(n, at.owner * call.value.size[1] + sample.pixel[corner]);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) count_points(Call<T> call, Lists<compute_t<T>> lists) {
  for_each_point(call, lists, [&](int64_t, int64_t list) { atomicAdd(lists.counts + list, 1); });
}

// Gives each pixel the room of its list: `ends` is where it begins. Blocks take theirs in any order.
template <class C>
__global__ void __launch_bounds__(block_threads) allot(Lists<C> lists) {
  __shared__ int sums[block_threads], first;
  for (int64_t begin = blockIdx.x * int64_t{block_threads}; begin < lists.pixels;
       begin += int64_t{gridDim.x} * block_threads) {
    const int64_t own = begin + threadIdx.x;
    const int count = own < lists.pixels ? lists.counts[own] : 0;
    int sum = count;
    for (int apart = 1; apart < block_threads; apart *= 2) {
      sums[threadIdx.x] = sum;
      __syncthreads();
      if (threadIdx.x >= apart) sum += sums[threadIdx.x - apart];
      __syncthreads();
    }
    if (threadIdx.x == block_threads - 1) first = atomicAdd(lists.used, sum);
    __syncthreads();
    if (own < lists.pixels) lists.ends[own] = first + sum - count;
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) scatter_points(Call<T> call, Lists<compute_t<T>> lists) {
  for_each_point(call, lists, [&](int64_t n, int64_t list) {
    lists.unordered[atomicAdd(lists.ends + list, 1)] = static_cast<int>(n);
  });
}

template <class T>
__global__ void __launch_bounds__(block_threads) rank_points(Call<T> call, Lists<compute_t<T>> lists) {
  using C = compute_t<T>;
  const int used = *lists.used;
  for (int64_t n = blockIdx.x * int64_t{block_threads} + threadIdx.x; n < used;
       n += int64_t{gridDim.x} * block_threads) {
    const int own = lists.unordered[n];
    const PointOf at(call, lists.image, own);
    const Sample<C> sample = call.sample(at.image, at.query, at.head, at.tap);
    const int corner = first_corner(sample);
    const int64_t list = at.owner * call.value.size[1] + sample.pixel[corner];
    const int end = lists.ends[list], begin = end - lists.counts[list];
    int rank = 0;
    for (int other = begin; other < end; ++other) rank += lists.unordered[other] < own;
    const uint32_t packed = Entry<C>::pack(at.query, at.tap / call.points(), corner);
    lists.entries[begin + rank] = {packed, sample.below, sample.right,
                                   call.weight(at.image, at.query, at.head, at.tap)};
  }
}

// The lists of some images at a time, and their memory.
template <class T>
class ListRoom {
  using C = compute_t<T>;

 public:
  // Images whose points are listed at once: as many as 2^24 points are of, and at least one.
  static int64_t images_at_once(const Call<T>& call) {
    const int64_t of_image = int64_t{call.heads()} * call.queries() * call.taps();
    const int64_t most = (int64_t{1} << 24) / (of_image > 0 ? of_image : 1);
    return most < 1 ? 1 : most < call.images() ? most : call.images();
  }

  ListRoom(const Call<T>& call, int64_t images)
      : call_(call),
        pixels_(images * call.heads() * call.value.size[1]),
        points_(points_of(images)),
        numbers_(2 * pixels_ + 1 + points_),
        entries_(points_) {}

  Lists<C> list(int64_t image, int64_t images, Stream stream) const {
    const int64_t pixels = images * call_.heads() * call_.value.size[1], points = points_of(images);
    // How much room is used is counted behind the counts.
    const Lists<C> lists{image,
                         points,
                         pixels,
                         numbers_.data,
                         numbers_.data + pixels_ + 1,
                         numbers_.data + pixels,
                         numbers_.data + 2 * pixels_ + 1,
                         entries_.data};
    const unsigned blocks = blocks_for(points, block_threads);
    clear<<<blocks_for(pixels + 1, block_threads), block_threads, 0, stream>>>(lists.counts, pixels + 1);
    count_points<T><<<blocks, block_threads, 0, stream>>>(call_, lists);
    allot<C><<<blocks_for(pixels, block_threads), block_threads, 0, stream>>>(lists);
    scatter_points<T><<<blocks, block_threads, 0, stream>>>(call_, lists);
    rank_points<T><<<blocks, block_threads, 0, stream>>>(call_, lists);
    return lists;
  }

 private:
  int64_t points_of(int64_t images) const { return images * call_.heads() * call_.queries() * call_.taps(); }

  const Call<T>& call_;
  int64_t pixels_, points_;
  Workspace<int> numbers_;
  Workspace<Entry<C>> entries_;
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
