// From the gradients of the sums to those of pixels where there are few points, on a GPU: without lists in memory.
//
// A block has a range of pixels of one image and head, and finds the points that reach it by itself. There are no
// atomics on sums, and the order of each sum is always the same. Levels may have pixels in common.
#pragma once

#include "range_points.cuh"

namespace opsmith::ops::ms_deform_attn {
namespace {

constexpr int together = 4;  // gradients that a lane waits for at once

// A block's piece is a range, and as many channels as the lanes of a pixel take at once.
template <class T>
class Ranges {
  using C = compute_t<T>;
  static constexpr int width = lane_width<T>;
  using Sums = Vector<C, width>;
  static constexpr int most_turns = range_bytes / (block_threads * static_cast<int>(sizeof(Sums)));

 public:
  Ranges(const Call<T>& call, const View<const T, 3>& grad_out, const View<T, 4>& grad_value)
      : grad_out_(grad_out),
        grad_value_(grad_value),
        lanes_of_(Lanes::of(call.channels(), width, block_threads / range_pixels)) {
    const int turns = range_pixels / lanes_of_.items();
    turns_ = turns < most_turns ? turns : most_turns;
    owners_ = call.images() * call.heads();
    small_ = call.pixels() / 16 / lanes_of_.items();
    ranges_ = small_ + divide_up(call.pixels() - small_ * lanes_of_.items(), turns_ * lanes_of_.items());
    slices_ = divide_up(call.channels(), lanes_of_.lanes_each * width);
  }

  int64_t pieces() const { return owners_ * ranges_ * slices_; }

  // To be called by all threads of a block, with one of fewer than 2^31 pieces.
  template <bool vectors>
  __device__ void gather(const Call<T>& call, unsigned piece, RangeRoom<C>& room) const {
    // From the last pixels on. These are of the coarsest levels as a rule and have the most points: their ranges are
    // small, and come first.
    const auto owners = static_cast<unsigned>(owners_), ranges = static_cast<unsigned>(ranges_);
    const unsigned block = piece / owners, owner = piece - block * owners, slice = slices_ == 1 ? 0 : block / ranges;
    const unsigned image = owner / static_cast<unsigned>(call.heads());
    const int index = static_cast<int>(block - slice * ranges), items = lanes_of_.items();
    const int each = index < small_ ? items : turns_ * items;
    const int end = call.pixels() - (index < small_ ? index * items : small_ * items + (index - small_) * each);
    const int first = end < each ? 0 : end - each;
    const Range range{static_cast<int>(image), static_cast<int>(owner - image * static_cast<unsigned>(call.heads())),
                      first, end - first};
    const int64_t channel = (int64_t{slice} * lanes_of_.lanes_each + lanes_of_.lane()) * width;
    const int64_t rest = call.channels() - channel;
    const int own = static_cast<int>(rest < 0 ? 0 : rest < width ? rest : width);
    __syncthreads();                                                // the room may still be in use
    Sums* sums = reinterpret_cast<Sums*>(room.sums) + threadIdx.x;  // of its pixels, a block's width apart
#pragma unroll
    for (int turn = 0; turn < most_turns; ++turn) sums[turn * block_threads] = Sums{};
    const Channels<width, vectors> from{grad_out_.stride[2], own}, to{grad_value_.stride[3], own};
    const T* const gradients = grad_out_.data + range.image * grad_out_.stride[0] +
                               (int64_t{range.head} * call.channels() + channel) * grad_out_.stride[2];
    add_levels(call, range, from, gradients, sums, room);
    T* at = &grad_value_(range.image, range.first + lanes_of_.item(), range.head, channel);
    for (int pixel = lanes_of_.item(); pixel < range.count && own > 0; pixel += items) {
      const Sums sum = *sums;
      to.store(sum.item, at);
      sums += block_threads;
      at += items * grad_value_.stride[1];
    }
  }

 private:
  // Adds up all points that reach the range.
  template <bool vectors>
  __device__ void add_levels(const Call<T>& call, const Range& range, const Channels<width, vectors>& from,
                             const T* gradients, Sums* sums, RangeRoom<C>& room) const {
    const auto levels = static_cast<int>(call.shapes.size[0]);
    bool is_clear = true;
    for (int base = 0; base < levels; base += lanes) {
      if (base > 0) __syncthreads();
      if (threadIdx.x < lanes) room.find_levels(call, range, base);
      if (base == 0) room.clear_corners();
      __syncthreads();
      for (uint32_t there = room.levels; there != 0; there &= there - 1) {
        const int next = __ffs(static_cast<int>(there)) - 1;
        const C first_y = room.rows[next].item[0], last_y = room.rows[next].item[1];
        const LevelPoints<T> points(call, range, base + next);
        int found = 0;
        for (int begin = 0; begin < call.queries(); begin += points.queries()) {
          found = points.find(begin, first_y, last_y, found, room);
          const bool is_last = begin + points.queries() >= call.queries();
          int done = 0;
          for (; found - done >= at_hand || (is_last && done < found); done += at_hand) {
            if (!is_clear) {
              __syncthreads();
              room.clear_corners();
              __syncthreads();
            }
            is_clear = false;
            if (static_cast<int>(threadIdx.x) < found - done) {
              points.add(room.found[done + threadIdx.x], static_cast<int>(grad_out_.stride[1]), room);
            }
            __syncthreads();
            add_up(range, from, gradients, sums, room);
          }
          found -= done;
          if (is_last || done == 0) continue;
          // The rest waits for those that are found next.
          const uint16_t moved = room.found[done + threadIdx.x];
          __syncthreads();
          room.found[threadIdx.x] = moved;
        }
      }
    }
  }

  // Adds what the points at hand give to this thread's pixels.
  template <bool vectors>
  __device__ void add_up(const Range& range, const Channels<width, vectors>& from, const T* gradients, Sums* sums,
                         const RangeRoom<C>& room) const {
    for (int pixel = lanes_of_.item(); pixel < range.count && from.count > 0; pixel += lanes_of_.items()) {
      Sums& total = *sums;
      sums += block_threads;
      CornersOf corners(room.corners[pixel], room.words[pixel]);
      if (!corners.has_more()) continue;
      Sums sum = total;
      do {
        Vector<T, width> gradient[together];
        C share[together];
        int count = 0;
#pragma unroll
        for (int k = 0; k < together; ++k) {
          if (!corners.has_more()) break;
          const int corner = corners.next();
          gradient[k] = from.read(gradients + room.gradient[corner / 4]);
          share[k] = room.share[corner / 4].item[corner % 4];
          ++count;
        }
#pragma unroll
        for (int k = 0; k < together; ++k) {
          if (k >= count) break;
#pragma unroll
          for (int c = 0; c < width; ++c) sum.item[c] += share[k] * static_cast<C>(gradient[k].item[c]);
        }
      } while (corners.has_more());
      total = sum;
    }
  }

  View<const T, 3> grad_out_;
  View<T, 4> grad_value_;
  Lanes lanes_of_;
  int turns_, small_;  // pixels of a lane; how many ranges have one alone
  int64_t owners_, ranges_, slices_;
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
