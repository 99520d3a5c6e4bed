// roi_pool on a GPU, for calls most of whose boxes are small and whose channels lie apart: a block copies the pixels of
// a box to shared memory, and makes its bins from there.
//
// There the channels of a slot lie side by side, so that a load brings a pixel of all of them, and the rows of a box
// lie closer together than an image's.
#pragma once

#include "../_gpu/shared_memory.cuh"
#include "team.cuh"

namespace opsmith::ops::roi_pool {
namespace {

constexpr int patch_pixels = 448;  // of a box, that there is room for with eight slots of 16 bytes

constexpr int patch_bytes = patch_pixels * (small_slots + 1) * 16;

// Copies the pixels of a box to shared memory, vectors of channels side by side, `pitch` of them to a pixel. `first` is
// the image's first pixel in the first of `there` channels. To be called by all threads, and followed by a barrier.
template <int width, class T>
__device__ void load_patch(const T* first, int64_t beside, int there, const PlannedBox& box, const Team& team,
                           int pitch, Vector<T, width>* to) {
  constexpr int sets = small_slots / 2, warps = small_threads / lanes / sets;
  const int warp = static_cast<int>(threadIdx.x) / lanes, set = warp / warps, pixels = box.pixels;
  const int begin = static_cast<int>(threadIdx.x) - set * warps * lanes, columns = box.columns;
  if (set >= sets || begin >= pixels) return;
  const Quotients row_of = box.of_columns;
  first += box.top * team.plane.down + box.left * team.plane.across;
  const auto planes_of = [&](int slot) {
    return ChannelPlanes<width, false, T>(first + slot * beside, team.slots * beside,
                                          [&](int c) { return slot + c * team.slots < there; });
  };
  const int slots = min(team.slots, there);
  // Two slots at a time, so that eight loads are on their way, in planes that stay for all pixels.
#pragma unroll 1
  for (int slot = set; slot < slots; slot += 2 * sets) {
    const bool has_two = slot + sets < slots;
    const auto planes = planes_of(slot), others = planes_of(has_two ? slot + sets : slot);
#pragma unroll 1
    for (int pixel = begin; pixel < pixels; pixel += warps * lanes) {
      const int row = row_of.of(pixel), offset = row * team.plane.down + (pixel - row * columns) * team.plane.across;
      const Vector<T, width> items = planes.read(offset), other_items = others.read(offset);
      to[pixel * pitch + slot] = items;
      if (has_two) to[pixel * pitch + slot + sets] = other_items;
    }
  }
}

// Does nothing where the plan is for large boxes. A box that does not fit is read where it is.
template <int width, class T>
__global__ void __launch_bounds__(small_threads, (small_blocks<width, T>))
    pool_patches(View<const T, 4> features, Plan plan, Team team, int channels, T* out, int32_t* argmax) {
  wait_for_earlier_kernels();
  if (plan.is_of_large()) return;
  extern __shared__ __align__(16) char bytes[];
  auto* const memory = reinterpret_cast<Vector<T, width>*>(bytes);
  const int thread = static_cast<int>(threadIdx.x), slot = team.of_bins.of(thread), bin = thread - slot * team.bins;
  const int64_t k = blockIdx.x;
  const PlannedBox& box = plan.box(k);
  // Vectors from pixel to pixel: an odd number, so that neighbouring pixels are in different banks.
  const int pitch = team.slots | 1, at_once = box.at_once;
  constexpr int most_pixels = 1023;  // as Quotients needs it
  const bool is_patched =
      box.pixels <= most_pixels && box.pixels * pitch * static_cast<int>(sizeof(Vector<T, width>)) <= patch_bytes;
  const T* const image = features.data + box.image * features.stride[0];
  const int begin = static_cast<int>(blockIdx.y) * team.channels, end = min(begin + team.channels, channels);
  const int i = team.of_columns.of(bin), j = bin - i * plan.columns;
  const Range y = plan.row(k, i), x = plan.column(k, j);
#pragma unroll 1
  for (int channel = begin; channel < end; channel += team.slots * width) {
    const T* const first = image + channel * features.stride[1];
    if (is_patched) {
      if (channel > begin) __syncthreads();  // all are done with the last patch
      load_patch<width>(first, features.stride[1], end - channel, box, team, pitch, memory);
      __syncthreads();
    }
    if (slot >= min(team.slots, end - channel)) continue;
    const auto is_there = [&](int c) { return channel + slot + c * team.slots < end; };
    Largest<width, T> largest;
    if (is_patched) {
      const PlaneSteps plane{box.columns * pitch * width, pitch * width};
      const BinPixels pixels{y, x, plane, box.top * plane.down + box.left * plane.across, team.image_width};
      const ChannelPlanes<width, true, T> planes(reinterpret_cast<const T*>(memory + slot));
      find_first_largest(planes, pixels, at_once, largest);
    } else {
      const BinPixels pixels{y, x, team.plane, 0, team.image_width};
      const ChannelPlanes<width, false, T> planes(first + slot * features.stride[1], team.slots * features.stride[1],
                                                  is_there);
      find_first_largest(planes, pixels, at_once, largest);
    }
    write_results<false>(largest, out + k * team.next_box, argmax + k * team.next_box,
                         team.result(channel + slot, i, j), team.slots * team.next_channel, is_there);
  }
}

inline bool has_room_for_patches() { return gpu::most_shared_memory() >= patch_bytes; }

template <int width, class T>
void launch_patches(const View<const T, 4>& features, const Plan& plan, const View<T, 4>& out,
                    const View<int32_t, 4>& argmax, Stream stream) {
  const Team team = make_team<width, false>(features, out);
  gpu::allow_shared_memory(pool_patches<width, T>, patch_bytes);
  launch_early<pool_patches<width, T>>("roi_pool_sized", grid_of(team, out.size[0], out.size[1]), small_threads,
                                       patch_bytes, stream, features, plan, team, static_cast<int>(out.size[1]),
                                       out.data, argmax.data);
}

}  // namespace
}  // namespace opsmith::ops::roi_pool
