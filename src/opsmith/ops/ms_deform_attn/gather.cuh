// From the gradients of the sums to those of pixels, on a GPU.
//
// A pixel adds up what four lists have for it. What a list has for the four pixels around it is summed up before by a
// warp, which reads a point's gradient once; short lists are left to the pixels. All of it goes in a fixed order, so
// there are no atomics and results do not change from run to run.
//
// Levels may have pixels in common; then a list has points of several, and all lists are left to the pixels.
#pragma once

#include "lists.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

constexpr int lists_each = 8;  // of a warp
constexpr int few_points = 4;  // of a short list
constexpr int corners = 4;     // a list's pixel, the one at its right, and the two below these

// What lists have for the pixels around them, [list][corner][channel], of lists that are not short. A row of channels
// is whole vectors.
template <class C>
struct Corners {
  C* sums;
  int row;

  __device__ C* at(int64_t list, int corner, int channel) const {
    return sums + (list * corners + corner) * row + channel;
  }
};

// What a point gives to the pixels right and down of its list's, which is the first of its own corners that is there:
// in the first row or column not the one at the top left.
template <class C>
struct Reach {
  C along_y[2], along_x[2];

  __device__ explicit Reach(const Entry<C>& entry) {
    const int corner = Packing::corner(entry.packed);
    const bool is_top = corner < 2, is_left = corner % 2 == 0;
    along_y[0] = entry.weight * (is_top ? C(1) - entry.below : entry.below);
    along_y[1] = is_top ? entry.weight * entry.below : C(0);
    along_x[0] = is_left ? C(1) - entry.right : entry.right;
    along_x[1] = is_left ? entry.right : C(0);
  }
};

// A warp takes some lists one after the other; the lanes of a query take its points in turn.
template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads) sum_lists(Call<T> call, Lists<compute_t<T>> lists, Lanes lanes_of,
                                                           View<const T, 3> grad_out, Corners<compute_t<T>> sums) {
  using C = compute_t<T>;
  constexpr int width = lane_width<T>, warps = block_threads / lanes;
  if (!*lists.is_disjoint) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes, turn = lane / lanes_of.lanes_each;
  const int turns = lanes / lanes_of.lanes_each, heads = call.heads(), all = call.channels();
  const int64_t step = int64_t{gridDim.x} * warps * lists_each;
  for (int64_t first = (int64_t{blockIdx.x} * warps + threadIdx.x / lanes) * lists_each; first < lists.pixels;
       first += step) {
    const bool is_there = lane < lists_each && first + lane < lists.pixels;
    const int2 own = is_there ? lists.range(first + lane) : make_int2(0, 0);
    for (uint32_t left = lanes_where(own.y - own.x > few_points); left != 0; left &= left - 1) {
      const int next = __ffs(static_cast<int>(left)) - 1, begin = shuffle(own.x, next), end = shuffle(own.y, next);
      const int64_t list = first + next;
      const unsigned owner = static_cast<unsigned>(list) / static_cast<unsigned>(call.pixels());
      const int head = static_cast<int>(owner % static_cast<unsigned>(heads));
      const int64_t image = lists.image + owner / heads;
      for (int base = 0; base < all; base += lanes_of.lanes_each * width) {
        const int channel = base + lanes_of.lane() * width;
        const int count = all - channel < 0 ? 0 : all - channel < width ? all - channel : width;
        const Channels<width, vectors> from{grad_out.stride[2], count};
        const T* const gradients =
            grad_out.data + image * grad_out.stride[0] + (int64_t{head} * all + channel) * grad_out.stride[2];
        C sum[corners][width] = {};
        if (count > 0) {
#pragma unroll 4
          for (int n = begin + turn; n < end; n += turns) {
            const Entry<C> entry = lists.entries[n];
            const Vector<T, width> gradient =
                from.read(gradients + lists.packing.query(entry.packed) * grad_out.stride[1]);
            const Reach<C> reach(entry);
#pragma unroll
            for (int corner = 0; corner < corners; ++corner) {
              const C share = reach.along_y[corner / 2] * reach.along_x[corner % 2];
#pragma unroll
              for (int c = 0; c < width; ++c) sum[corner][c] += share * static_cast<C>(gradient.item[c]);
            }
          }
        }
        for (int apart = lanes_of.lanes_each; apart < lanes; apart *= 2) {
#pragma unroll
          for (int corner = 0; corner < corners; ++corner) {
#pragma unroll
            for (int c = 0; c < width; ++c) sum[corner][c] += shuffle_xor(sum[corner][c], apart);
          }
        }
        if (count == 0) continue;
#pragma unroll
        for (int corner = 0; corner < corners; ++corner) {
          if (corner % turns != turn) continue;
          Channels<width, true>{1, width}.store(sum[corner], sums.at(list, corner, channel));
        }
      }
    }
  }
}

// Adds what the points of one list give to the pixel that is `up` rows below and `left` columns right of the list's.
template <int width, bool vectors, class T>
__device__ void add_list(const Lists<compute_t<T>>& lists, int64_t list, int points, int level, int up, int left,
                         const Channels<width, vectors>& channels, const T* gradients, int64_t query_stride,
                         compute_t<T> (&sum)[width]) {
  using C = compute_t<T>;
  const Entry<C>* const entries = lists.entries + lists.begins[list];
#pragma unroll 1
  for (int n = 0; n < points; ++n) {
    const Entry<C> entry = entries[n];
    if (lists.packing.level(entry.packed) != level) continue;
    const Vector<T, width> gradient = channels.read(gradients + lists.packing.query(entry.packed) * query_stride);
    const Reach<C> reach(entry);
    const C share = (up == 0 ? reach.along_y[0] : reach.along_y[1]) * (left == 0 ? reach.along_x[0] : reach.along_x[1]);
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] += share * static_cast<C>(gradient.item[c]);
  }
}

template <class T, bool vectors>
__global__ void __launch_bounds__(block_threads)
    gather_pixels(Call<T> call, Lists<compute_t<T>> lists, Lanes lanes_of, unsigned pieces, View<const T, 3> grad_out,
                  Corners<compute_t<T>> sums, View<T, 4> grad_value) {
  using C = compute_t<T>;
  constexpr int width = lane_width<T>;
  const int levels = static_cast<int>(call.shapes.size[0]);
  const bool is_disjoint = *lists.is_disjoint;
  const auto items = static_cast<unsigned>(lanes_of.items()), heads = static_cast<unsigned>(call.heads());
  const auto pixels = static_cast<unsigned>(call.pixels()), blocks = (pixels + items - 1) / items;
  const int all = call.channels();
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const unsigned owner = piece / blocks, head = owner % heads;
    const unsigned pixel = (piece - owner * blocks) * items + lanes_of.item();
    const int64_t image = lists.image + owner / heads;
    if (pixel >= pixels) continue;
    const int64_t own_list = int64_t{owner} * pixels + pixel;
    for (int channel = lanes_of.lane() * width; channel < all; channel += lanes_of.lanes_each * width) {
      const int own = all - channel < width ? all - channel : width;
      const Channels<width, vectors> from{grad_out.stride[2], own}, to{grad_value.stride[3], own};
      C sum[width] = {};
      for (int l = 0; l < levels; ++l) {
        const LevelRange level = lists.levels[l];
        if (!level.has(pixel)) continue;
        const unsigned place = level.place(pixel), column = place % level.columns;
        int64_t list[corners];
        int points[corners];
#pragma unroll
        for (int corner = 0; corner < corners; ++corner) {
          const int up = corner / 2, left = corner % 2;
          const unsigned back = (up == 0 ? 0 : level.columns) + left;
          const bool is_there = (up == 0 || place >= level.columns) && (left == 0 || column > 0) && back <= pixel;
          list[corner] = own_list - back;
          points[corner] = is_there ? lists.counts[list[corner]] : 0;
        }
        const T* const gradients =
            grad_out.data + image * grad_out.stride[0] + (int64_t{head} * all + channel) * grad_out.stride[2];
#pragma unroll
        for (int corner = 0; corner < corners; ++corner) {
          if (points[corner] == 0) continue;
          if (is_disjoint && points[corner] > few_points) {
            C part[width];
            Channels<width, true>{1, width}.load(static_cast<const C*>(sums.at(list[corner], corner, channel)), part);
#pragma unroll
            for (int c = 0; c < width; ++c) sum[c] += part[c];
          } else {
            add_list<width, vectors>(lists, list[corner], points[corner], l, corner / 2, corner % 2, from, gradients,
                                     grad_out.stride[1], sum);
          }
        }
        if (is_disjoint) break;
      }
      to.store(sum, &grad_value(image, pixel, head, channel));
    }
  }
}

template <class T>
void launch_gather(const Call<T>& call, const View<const T, 3>& grad_out, const View<T, 4>& grad_value, Stream stream) {
  using C = compute_t<T>;
  constexpr int width = lane_width<T>;
  const Lanes lanes_of = Lanes::of(call.channels(), width);
  const int row = static_cast<int>(divide_up(call.channels(), width)) * width;
  const int64_t list_elements = int64_t{corners} * row;
  const int64_t at_once = ListRoom<T>::images_at_once(call, list_elements);
  const ListRoom<T> room(call, at_once);
  const Workspace<C> sums(at_once * call.heads() * call.pixels() * list_elements);
  const bool reads_vectors = has_vectors(grad_out, call.channels());
  const bool vectors = reads_vectors && has_vectors(View<const T, 4>(grad_value));
  for (int64_t image = 0; image < call.images(); image += at_once) {
    const int64_t images = at_once < call.images() - image ? at_once : call.images() - image;
    const Lists<C> lists = room.list(image, images, stream);
    const auto pieces = static_cast<unsigned>(images * call.heads() * divide_up(call.pixels(), lanes_of.items()));
    const unsigned blocks = blocks_for(lists.pixels, block_threads / lanes * lists_each);
    const auto sum = reads_vectors ? sum_lists<T, true> : sum_lists<T, false>;
    const auto gather = vectors ? gather_pixels<T, true> : gather_pixels<T, false>;
    sum<<<blocks, block_threads, 0, stream>>>(call, lists, lanes_of, grad_out, Corners<C>{sums.data, row});
    gather<<<blocks_for(pieces, 1), block_threads, 0, stream>>>(call, lists, lanes_of, pieces, grad_out,
                                                                Corners<C>{sums.data, row}, grad_value);
  }
}

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
