// Lays channels of an image in shared memory, for pool_planes.cuh.
#pragma once

#include "../_gpu/async_copy.cuh"
#include "plane_points.cuh"

namespace opsmith::ops::roi_align {
namespace {

constexpr int pool_plane_threads = 1024;  // one block has all the shared memory
constexpr int pool_plane_warps = pool_plane_threads / lanes;

template <class T>
constexpr int plane_channels = sizeof(T) == 2 ? 2 : 1;  // of a word

// Lays four pixels of some channels in shared memory, or zeros. Of one channel they are copied as they are, and copies
// are only begun where the GPU has such.
template <class T, int channels>
__device__ void load_quad(const T* from, int64_t stride, bool is_there, bool has_second, uint4* to) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (channels == 1 && is_there) {
    gpu::copy_async(to, from);
    return;
  }
#endif
  Vector<T, 4> value[channels] = {};
  if (is_there) value[0] = *reinterpret_cast<const Vector<T, 4>*>(from);
  if constexpr (channels == 2) {
    if (is_there && has_second) value[1] = *reinterpret_cast<const Vector<T, 4>*>(from + stride);
  }
  Vector<Vector<T, channels>, 4> words;
#pragma unroll
  for (int v = 0; v < 4; ++v) {
#pragma unroll
    for (int c = 0; c < channels; ++c) words.item[v].item[c] = value[c].item[v];
  }
  *to = bit_cast<uint4>(words);
}

// Lays some channels of an image in shared memory; with `vectors` four pixels at a time.
template <class T>
__device__ void load_plane(const View<const T, 4>& features, int64_t image, int64_t channel, bool vectors,
                           const Plane& plane, char* room) {
  constexpr int channels = plane_channels<T>;
  const T* const from = &features(image, channel, 0, 0);
  const bool has_second = channel + 1 < features.size[1];
  if (vectors) {
    const int across = plane.pitch / 4, down = pool_plane_threads / across, beside = pool_plane_threads % across;
    int row = threadIdx.x / across, x = threadIdx.x % across;
#pragma unroll 8
    for (int index = threadIdx.x; index < (plane.height + 1) * across; index += pool_plane_threads) {
      load_quad<T, channels>(from + row * features.stride[2] + x * 4, features.stride[1],
                             row < plane.height && x * 4 < plane.width, has_second,
                             reinterpret_cast<uint4*>(room) + index);
      row += down, x += beside;
      if (x >= across) ++row, x -= across;
    }
    gpu::wait_for_copies();
    return;
  }
  const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
#pragma unroll 1
  for (int row = warp; row <= plane.height; row += pool_plane_warps) {
#pragma unroll 4
    for (int x = lane; x < plane.pitch; x += lanes) {
      const T* const place = from + row * features.stride[2] + x * features.stride[3];
      const bool is_there = row < plane.height && x < plane.width;
      Vector<T, channels> word{};
      if (is_there) word.item[0] = *place;
      if constexpr (channels == 2) {
        if (is_there && has_second) word.item[1] = place[features.stride[1]];
      }
      reinterpret_cast<Vector<T, channels>*>(room)[row * plane.pitch + x] = word;
    }
  }
}

}  // namespace
}  // namespace opsmith::ops::roi_align
