// Which object each box overlaps most, and which boxes overlap an object most, without all overlaps in memory.
#include <opsmith/divide.h>
#include <opsmith/kernel.h>
#include <opsmith/lanes.h>
#include <opsmith/workspace.h>

using namespace opsmith;

#if defined(__clang__)
#pragma clang fp contract(off)  // overlaps are compared, and have to be the definition's to the bit
#endif

namespace {

constexpr int threads = 256;
constexpr int at_once = 128;  // objects in shared memory

// Rounded, where nvcc would make one operation of it and a sum.
__device__ float product(float a, float b) {
#if defined(__HIPCC__)
  return a * b;
#else
  return __fmul_rn(a, b);
#endif
}

struct Box {
  float x1, y1, x2, y2, area;

  Box() = default;
  __device__ Box(const View<const float, 3>& boxes, int64_t image, int64_t k)
      : x1(boxes(image, k, 0)), y1(boxes(image, k, 1)), x2(boxes(image, k, 2)), y2(boxes(image, k, 3)) {
    area = product(x2 - x1, y2 - y1);
  }

  __device__ float overlap(const Box& other) const {
    const float width = fminf(x2, other.x2) - fmaxf(x1, other.x1), height = fminf(y2, other.y2) - fmaxf(y1, other.y1);
    const float shared = product(fmaxf(width, 0.0f), fmaxf(height, 0.0f)), all = area + other.area - shared;
    // Most boxes do not meet, and a division takes as long as all the rest.
    return shared == 0.0f && all > 0.0f ? 0.0f : shared / all;
  }
};

// An overlap above 0 as a number whose order is the same; 0 for another one, and the largest for NaN.
constexpr uint32_t nan_key = 0xffffffffu;
__device__ uint32_t key_of(float overlap) {
  return overlap > 0.0f ? __float_as_uint(overlap) : overlap != overlap ? nan_key : 0;
}

__device__ uint32_t largest_of_lanes(uint32_t key) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, key);
#else
  for (int mask = lanes / 2; mask > 0; mask /= 2) key = max(key, shuffle_xor(key, mask));
  return key;
#endif
}

__global__ void __launch_bounds__(threads) clear(uint32_t* best, int64_t count) {
  const int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (k < count) best[k] = 0;
}

// A thread has a box. `best` is of each object of each image, if it is asked for.
__global__ void __launch_bounds__(threads)
    find_highest(View<const float, 3> objects, View<const float, 3> boxes, uint32_t* best, View<float, 2> highest,
                 View<int64_t, 2> index, View<bool, 2> is_best) {
  __shared__ Box some[at_once];
  __shared__ uint32_t best_of_some[at_once];
  const int64_t image = blockIdx.y, count = objects.size[1];
  const int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x;
  const bool is_box = k < boxes.size[1];
  const Box own(boxes, image, is_box ? k : 0);
  float most = 0.0f;
  int64_t place = 0;
  for (int64_t first = 0; first < count; first += at_once) {
    const int left = static_cast<int>(count - first < at_once ? count - first : at_once);
    if (first > 0) __syncthreads();  // all are done with the ones before
    for (int g = static_cast<int>(threadIdx.x); g < left; g += threads) {
      some[g] = Box(objects, image, first + g);
      best_of_some[g] = 0;
    }
    __syncthreads();
    for (int g = 0; g < left; ++g) {
      const float overlap = some[g].overlap(own);
      const bool is_first = first + g == 0;
      if (is_first || overlap > most || (overlap != overlap && most == most)) most = overlap, place = first + g;
      if (best == nullptr) continue;
      const uint32_t key = is_box ? key_of(overlap) : 0;
      if (!any_lane(key > best_of_some[g])) continue;
      const uint32_t of_lanes = largest_of_lanes(key);
      if (threadIdx.x % lanes == 0) atomicMax(&best_of_some[g], of_lanes);
    }
    if (best == nullptr) continue;
    __syncthreads();
    for (int g = static_cast<int>(threadIdx.x); g < left; g += threads) {
      if (best_of_some[g] > 0) atomicMax(&best[image * count + first + g], best_of_some[g]);
    }
  }
  if (!is_box) return;
  highest(image, k) = most;
  index(image, k) = place;
  is_best(image, k) = false;
}

// Marks the boxes that overlap an object most: few have an overlap that is as large as the best of one.
__global__ void __launch_bounds__(threads)
    mark_best(View<const float, 3> objects, View<const float, 3> boxes, const uint32_t* best,
              View<const float, 2> highest, View<bool, 2> is_best) {
  const int64_t image = blockIdx.y, count = objects.size[1];
  const int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (k >= boxes.size[1]) return;
  const uint32_t most = key_of(highest(image, k));
  if (most == 0) return;
  const Box own(boxes, image, k);
  bool found = false;
  for (int64_t g = 0; g < count && !found; ++g) {
    const uint32_t key = best[image * count + g];
    found = key > 0 && key <= most && key != nan_key && key_of(Box(objects, image, g).overlap(own)) == key;
  }
  if (found) is_best(image, k) = true;
}

}  // namespace

void best_overlaps(View<const float, 3> objects, View<const float, 3> boxes, bool best_too, View<float, 2> highest,
                   View<int64_t, 2> index, View<bool, 2> is_best, Stream stream) {
  const int64_t images = boxes.size[0], count = objects.size[1];
  if (count == 0) fail("best_overlaps: there are no objects, and not even padding");
  if (boxes.size[1] == 0 || images == 0) return;
  if (images > 65535) fail("best_overlaps: a call can have up to 65,535 images; found ", images);
  const dim3 grid(static_cast<unsigned>(divide_up(boxes.size[1], int64_t{threads})), static_cast<unsigned>(images));
  if (!best_too) {
    find_highest<<<grid, threads, 0, stream>>>(objects, boxes, nullptr, highest, index, is_best);
    check_launch("best_overlaps");
    return;
  }
  const Workspace<uint32_t> best(images * count);
  clear<<<static_cast<unsigned>(divide_up(images * count, int64_t{threads})), threads, 0, stream>>>(best.data,
                                                                                                    images * count);
  find_highest<<<grid, threads, 0, stream>>>(objects, boxes, best.data, highest, index, is_best);
  mark_best<<<grid, threads, 0, stream>>>(objects, boxes, best.data, highest, is_best);
  check_launch("best_overlaps");
}
