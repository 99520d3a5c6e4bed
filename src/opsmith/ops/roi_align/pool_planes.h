// roi_align on a GPU of contiguous features and many boxes: a block lays a channel of an image in shared memory as a
// whole, and makes the bins of all boxes of the image from there.
//
// A tap of a contiguous feature is a few bytes of a line that has nothing else of its bin. In shared memory it costs no
// more than these. Words of 32 bits have a pixel's channel, in 16-bit types two, so that a tap is read once for both.
// Where the sampling points lie is worked out beforehand, once for all channels.
#pragma once

#include <opsmith/workspace.h>

#include "../roi_pool/shared_memory.h"
#include "pool.h"

namespace {

constexpr int plane_samples = 2;          // the sampling_ratio that there is a kernel for, which most detectors have
constexpr int pool_plane_threads = 1024;  // one block has all the shared memory

template <class T>
constexpr int plane_channels = sizeof(T) == 2 ? 2 : 1;  // of a word

// The sampling points of a bin along an axis: the two places that each lies between, in 16 bits each, and what the
// second of them weighs. Along y places are rows, along x they are bytes.
struct alignas(16) Points {
  unsigned places[plane_samples];
  float weight[plane_samples];
};

// How an image lies in shared memory. Behind its last row and its last column are zeros, for points that are not next
// to the image.
struct Plane {
  int height, width;
  int pitch;  // of rows, in words: an odd multiple of four, so that rows begin in different banks

  __host__ __device__ int bytes() const { return (height + 1) * pitch * 4; }
};

// Finds the points of all boxes, for each box those along y first; and the images of the boxes. What is no box has none
// in the first image.
__global__ void find_points(View<const float, 2> boxes, Pooling pooling, Plane plane, int* images, Points* points) {
  const int rows = static_cast<int>(pooling.out_height), all = rows + static_cast<int>(pooling.out_width);
#pragma unroll 1
  for (int64_t k = blockIdx.x; k < boxes.size[0]; k += gridDim.x) {
    const Roi roi = read_roi(boxes, k, pooling);
    if (threadIdx.x == 0) images[k] = roi.image < 0 ? 0 : static_cast<int>(roi.image);
#pragma unroll 1
    for (int index = threadIdx.x; index < all * plane_samples; index += blockDim.x) {
      const int bin = index / plane_samples, sample = index % plane_samples;
      const bool is_row = bin < rows;
      const Side side = is_row ? roi.y : roi.x;
      const float begin = side.start + product(static_cast<float>(is_row ? bin : bin - rows), side.bin);
      int pixel = is_row ? plane.height : plane.width;
      float above = 0;
      if (roi.image >= 0) side.find(begin, sample, pixel, above);
      // A pixel that has all the weight is there twice, as what weighs 0 must not take part.
      const unsigned step = is_row ? 1 : 4, first = pixel * step, second = above > 0 ? first + step : first;
      points[k * all + bin].places[sample] = first | second << 16;
      points[k * all + bin].weight[sample] = above > 0 ? above : 0.5f;
    }
  }
}

// Lays some channels of an image in shared memory; with `vectors` four pixels at a time.
template <class T>
__device__ void load_plane(const View<const T, 4>& features, int64_t image, int64_t channel, bool vectors,
                           const Plane& plane, Vector<T, plane_channels<T>>* to) {
  constexpr int channels = plane_channels<T>;
  const T* const from = &features(image, channel, 0, 0);
  const bool has_second = channel + 1 < features.size[1];
  if (vectors) {
    const int across = plane.pitch / 4, down = pool_plane_threads / across, beside = pool_plane_threads % across;
    int row = threadIdx.x / across, x = threadIdx.x % across;
#pragma unroll 8
    for (int index = threadIdx.x; index < (plane.height + 1) * across; index += pool_plane_threads) {
      const T* const place = from + row * features.stride[2] + x * 4;
      Vector<T, 4> value[channels] = {};
      if (row < plane.height && x * 4 < plane.width) {
        value[0] = *reinterpret_cast<const Vector<T, 4>*>(place);
        if constexpr (channels == 2) {
          if (has_second) value[1] = *reinterpret_cast<const Vector<T, 4>*>(place + features.stride[1]);
        }
      }
      Vector<Vector<T, channels>, 4> words;
#pragma unroll
      for (int v = 0; v < 4; ++v) {
#pragma unroll
        for (int c = 0; c < channels; ++c) words.item[v].item[c] = value[c].item[v];
      }
      reinterpret_cast<uint4*>(to)[index] = bit_cast<uint4>(words);
      row += down, x += beside;
      if (x >= across) ++row, x -= across;
    }
    return;
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int row = warp; row <= plane.height; row += pool_plane_threads / 32) {
#pragma unroll 4
    for (int x = lane; x < plane.pitch; x += 32) {
      const T* const place = from + row * features.stride[2] + x * features.stride[3];
      const bool is_there = row < plane.height && x < plane.width;
      Vector<T, channels> word{};
      if (is_there) word.item[0] = *place;
      if constexpr (channels == 2) {
        if (is_there && has_second) word.item[1] = place[features.stride[1]];
      }
      to[row * plane.pitch + x] = word;
    }
  }
}

// The sums of a bin, of `down` points along y and `beside` points along x.
template <class T, int channels>
__device__ void sum_points(const Vector<T, channels>* words, const Plane& plane, const Points& down,
                           const Points& beside, float (&sum)[channels]) {
#pragma unroll
  for (int s = 0; s < plane_samples; ++s) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int place = down.places[s] >> 16 * v & 0xffff;
      const char* const row = reinterpret_cast<const char*>(words) + place * (plane.pitch * 4);
      float across[channels] = {};
#pragma unroll
      for (int t = 0; t < plane_samples; ++t) {
        const auto first = *reinterpret_cast<const Vector<T, channels>*>(row + (beside.places[t] & 0xffff));
        const auto second = *reinterpret_cast<const Vector<T, channels>*>(row + (beside.places[t] >> 16));
#pragma unroll
        for (int c = 0; c < channels; ++c) {
          across[c] += (1.0f - beside.weight[t]) * static_cast<float>(first.item[c]);
          across[c] += beside.weight[t] * static_cast<float>(second.item[c]);
        }
      }
      const float weight = v == 0 ? 1.0f - down.weight[s] : down.weight[s];
#pragma unroll
      for (int c = 0; c < channels; ++c) sum[c] += weight * across[c];
    }
  }
}

// Finds the first box of an image, and the one behind its last: most callers have their boxes in the order of images.
// To be called by all threads; it ends with a barrier.
__device__ void find_boxes(const int* images, int64_t boxes, int image, int64_t& first, int64_t& end) {
  __shared__ unsigned long long low, high;
  if (threadIdx.x == 0) low = boxes, high = 0;
  __syncthreads();
  for (int64_t k = threadIdx.x; k < boxes; k += pool_plane_threads) {
    if (images[k] != image) continue;
    atomicMin(&low, static_cast<unsigned long long>(k));
    atomicMax(&high, static_cast<unsigned long long>(k + 1));
  }
  __syncthreads();
  first = low, end = high;
}

template <class T>
__global__ void __launch_bounds__(pool_plane_threads)
    pool_planes(View<const T, 4> features, const int* images, const Points* points, Plane plane, bool vectors,
                View<T, 4> out) {
  constexpr int channels = plane_channels<T>;
  extern __shared__ uint4 room[];
  auto* const words = reinterpret_cast<Vector<T, channels>*>(room);
  const int rows = static_cast<int>(out.size[2]), columns = static_cast<int>(out.size[3]), bins = rows * columns;
  // A thread has one bin of a box, and the same one of others.
  const int boxes_at_once = pool_plane_threads / bins, thread = static_cast<int>(threadIdx.x);
  const int box = thread / bins, bin = thread - box * bins, i = bin / columns, j = bin - i * columns;
  const int64_t groups = (features.size[1] + channels - 1) / channels;
#pragma unroll 1
  for (int64_t part = blockIdx.x; part < features.size[0] * groups; part += gridDim.x) {
    const int image = static_cast<int>(part / groups);
    const int64_t channel = part % groups * channels;
    load_plane(features, image, channel, vectors, plane, words);
    int64_t first, end;
    find_boxes(images, out.size[0], image, first, end);
    first = box < boxes_at_once ? first + box : end;
    const Points* own = points + first * (rows + columns);
    T* to = out.data + first * out.stride[0] + channel * out.stride[1] + i * out.stride[2] + j * out.stride[3];
#pragma unroll 1
    for (int64_t k = first; k < end; k += boxes_at_once) {
      if (images[k] == image) {
        const Points down = own[i], beside = own[rows + j];
        float sum[channels] = {};
        sum_points(words, plane, down, beside, sum);
#pragma unroll
        for (int c = 0; c < channels; ++c) {
          constexpr float share = 1.0f / (plane_samples * plane_samples);
          if (channel + c < out.size[1]) to[c * out.stride[1]] = static_cast<T>(share * sum[c]);
        }
      }
      own += boxes_at_once * (rows + columns);
      to += boxes_at_once * out.stride[0];
    }
    __syncthreads();  // before the next plane takes its place
  }
}

// Returns whether this is the way for a call; if not, nothing is done.
template <class T>
bool launch_pool_planes(const View<const T, 4>& features, const Pooling& pooling, const View<const float, 2>& boxes,
                        const View<T, 4>& out, Stream stream) {
  if constexpr (sizeof(T) == 8) {
    return false;
  } else {
    constexpr int64_t most_pixels = 1 << 16;  // of a plane; no GPU has the shared memory for more
    const int64_t images = features.size[0], pixels = pooling.height * pooling.width, bins = out.size[2] * out.size[3];
    const int64_t parts = images * ((features.size[1] + plane_channels<T> - 1) / plane_channels<T>);
    if (pooling.sampling_ratio != plane_samples || pixels == 0 || pooling.height >= most_pixels ||
        pooling.width >= most_pixels / 4 - 8 || pixels > most_pixels || bins > pool_plane_threads) {
      return false;
    }
    // All pixels are read once, and it takes blocks to fill a GPU.
    if (out.size[0] * bins * 8 < images * pixels || parts < 128) return false;
    Plane plane{static_cast<int>(pooling.height), static_cast<int>(pooling.width), 0};
    plane.pitch = plane.width / 4 * 4 + 4;
    if (plane.pitch % 8 == 0) plane.pitch += 4;
    if (plane.bytes() + 16 > most_shared_memory()) return false;  // find_boxes has some, too
    allow_shared_memory(pool_planes<T>, plane.bytes());
    bool vectors = features.stride[3] == 1 && plane.width % 4 == 0 && is_aligned(features.data, 4 * sizeof(T));
    for (int dim = 0; dim < 3; ++dim) vectors = vectors && features.stride[dim] % 4 == 0;
    const int64_t count = out.size[0];
    const Workspace<Points> points(count * (out.size[2] + out.size[3]));
    const Workspace<int> of_image(count);
    find_points<<<blocks_for(count, 1), 64, 0, stream>>>(boxes, pooling, plane, of_image.data, points.data);
    pool_planes<<<blocks_for(parts, 1), pool_plane_threads, plane.bytes(), stream>>>(features, of_image.data,
                                                                                     points.data, plane, vectors, out);
    return true;
  }
}

}  // namespace
