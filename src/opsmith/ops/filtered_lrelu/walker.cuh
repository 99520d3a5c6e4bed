// A thread on its way down columns of u, with all that it keeps in registers and shares with its block: see walk.cuh.
#pragma once

#include "down_rows.cuh"
#include "nonlinearity.cuh"
#include "up_rows.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

// What is in place of what a call does not have.
struct Nothing {
  template <class... Arguments>
  __device__ explicit Nothing(Arguments...) {}
};

template <class R, bool later_y>
class Walker {
  static constexpr bool is_full_up = R::is_full && R::is_backward, is_full_down = R::is_full && !R::is_backward;
  using In = Samples<R::up>;
  using Up = std::conditional_t<is_full_up, FullUpRows<R::up, later_y>, UpRows<R::up, later_y>>;
  using Down = std::conditional_t<is_full_down, FullDownRows<R::down>, DownRows<R::down>>;
  using DownTaps = std::conditional_t<is_full_down, Nothing, TapsAlongY<R::down>>;
  using OwnSigns = std::conditional_t<R::is_backward, SignReader<turn / step>,
                                      std::conditional_t<R::writes_signs, SignWriter, Nothing>>;

  // The last threads' outputs are not kept; they read beyond the others' columns.
  static constexpr int room = (R::threads + (span * R::down + 3) / 4) * wide, room_in = In::room(R::threads);
  static constexpr int side_up = span * R::up, side_down = span * R::down;

 public:
  // What the threads of a block share.
  struct alignas(16) Memory {
    // What is filtered along x. A full filter takes u, or leaves its numbers here, each thread for itself.
    float rows[R::is_full ? turn : turn / R::down][room];
    float samples[(is_full_up ? 2 : 1) * In::rows][room_in];
    // Taps along x, or of a full filter, and along y.
    float up_x[is_full_up ? side_up * side_up : side_up], up_y[side_up];
    float down_x[is_full_down ? side_down * side_down : side_down], down_y[side_down];
  };

  __device__ Walker(const WalkCall& call, const StripPlace& place, const Strips& strips, const WalkStart& y,
                    const WalkStart& x, Memory& memory)
      : memory_(memory),
        taps_(keep_taps(call, x.later)),
        in_(call.in, call.element, place, strips.units, y.sample - before, x.sample, call.bias(place.at.channel)),
        mine_(In::first(place, strips.units)),
        up_(make_up(x.later)),
        signs_(call.signs, place.at.image, place.at.channel, y.u, x.u + place.unit * wide, place.is_kept),
        outputs_(call, place, strips, y, x) {
    if constexpr (is_full_up) {
      in_.read();
      in_.put(&memory.samples[In::rows][0], room_in);
    } else {
      take_kept();
    }
    __syncthreads();
    read();
  }

  // Begins to read the samples and signs of the next turn.
  __device__ void read() {
    in_.read();
    if constexpr (R::is_backward) signs_.read();
  }

  // Makes the rows of turn n that are filtered along x.
  __device__ void walk(int n, const Nonlinearity& nonlinearity) {
    const int half = is_full_up ? n % 2 * In::rows : 0;
    in_.put(&memory_.samples[half][0], room_in);
    __syncthreads();
    float* mine = &memory_.rows[0][threadIdx.x * wide];
    if constexpr (is_full_up) {
      up_.make(&memory_.samples[In::rows - half][mine_], &memory_.samples[half][mine_], room_in, mine, room);
    }
#pragma unroll 1
    for (int s = 0; s < turn; s += step) {
      if constexpr (!is_full_up) up_.take(&memory_.samples[s / R::up][mine_], room_in);
      uint32_t bits = 0;
      if constexpr (R::is_backward) bits = signs_.take();
#pragma unroll
      for (int i = 0; i < step; ++i) {
        float numbers[wide];
        if constexpr (is_full_up) {
          load_floats<4>(mine + (s + i) * room, numbers);
        } else {
          up_.make(i, numbers);
        }
#pragma unroll
        for (int c = 0; c < wide; ++c) {
          float& number = numbers[c];
          const int place = 8 * i + 2 * c;
          if constexpr (R::is_backward) {
            number = nonlinearity.gradient(number, bits, place);
          } else if constexpr (R::writes_signs) {
            number = nonlinearity.value(number, bits, place);
          } else {
            number = nonlinearity.value(number);
          }
        }
        if constexpr (is_full_down) {
          put_row(mine + (s + i) * room, numbers);
        } else {
          float tap[span];
          taps_.load(i % R::down, tap);
          down_.add(i, numbers, tap);
          if (down_.completes(i)) put_row(mine + (s + i) / R::down * room, down_.row(i));
        }
      }
      if constexpr (R::writes_signs) signs_.write(bits);
      if constexpr (!is_full_up) up_.advance();
      if constexpr (!is_full_down) down_.advance();
    }
    __syncthreads();
  }

  // Makes outputs of them.
  __device__ void store() {
    const float* from = &memory_.rows[0][threadIdx.x * wide];
    if constexpr (is_full_down) {
      down_.add(from, room, memory_.down_x);
      outputs_.store([&](int r, auto& made) { down_.copy(r, made); });
      down_.advance();
    } else {
      outputs_.store(AlongX<R::down>(from, room, memory_.down_x));
    }
  }

  // The sum of the outputs that this thread has stored.
  __device__ float total() const { return outputs_.total; }

 private:
  // Rows of samples in front of those that the first turn brings come by whole turns of them, too.
  static constexpr int rounds = (Up::kept + In::rows - 1) / In::rows, before = rounds * In::rows - Up::kept;

  __device__ void take_kept() {
    for (int round = 0; round < rounds; ++round) {
      in_.read();
      __syncthreads();
      in_.put(&memory_.samples[0][0], room_in);
      __syncthreads();
#pragma unroll 1
      for (int r = 0; r < In::rows; r += Up::fresh) {
        up_.take(&memory_.samples[r][mine_], room_in);
        up_.advance();
      }
    }
  }

  // Keeps a separable filter's taps: along_x[i] is number x_of(i) of them, and y_of(i) is the one for a phase's sample.
  template <class XOf, class YOf>
  __device__ static void keep(const Pass& pass, int factor, float* along_x, const XOf& x_of, float* along_y,
                              const YOf& y_of) {
    const float gain = static_cast<float>(pass.filtering.gain);
    const float nothing = any_nan(2 * factor * span, [&](int i) { return pass.taps(i % 2, i / 2); }) ? NAN : -0.0f;
    for (int i = thread(); i < factor * span; i += threads()) {
      along_x[i] = pass.taps(1, x_of(i));
      along_y[i] = pass.taps(0, y_of(i)) * gain + nothing;
    }
  }

  // Keeps a full filter's taps.
  template <class TapOf>
  __device__ static void keep_full(const Pass& pass, int count, float* taps, const TapOf& tap_of) {
    const float gain = static_cast<float>(pass.filtering.gain);
    const float nothing = any_nan(count, tap_of) ? NAN : -0.0f;
    for (int i = thread(); i < count; i += threads()) taps[i] = tap_of(i) * gain + nothing;
  }

  // Whether a tap is NaN, for then all of them are.
  template <class TapOf>
  __device__ static bool any_nan(int count, const TapOf& tap_of) {
    bool is_nan = false;
    for (int i = thread(); i < count; i += threads()) is_nan = is_nan || tap_of(i) != tap_of(i);
    return __syncthreads_or(is_nan) != 0;
  }

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }

  // Keeps all taps, and returns those along y of the second filter.
  __device__ DownTaps keep_taps(const WalkCall& call, bool later) const {
    const int first = later ? 1 : 0;
    Memory& m = memory_;
    if constexpr (is_full_up) {
      keep_full(call.up, side_up * side_up, m.up_x, [&](int i) {
        return call.up.taps.full(up_tap<R::up>(i / side_up, 0), up_tap<R::up>(i % side_up, first));
      });
    } else {
      keep(
          call.up, R::up, m.up_x, [&](int i) { return up_tap<R::up>(i, first); }, m.up_y,
          [](int i) { return up_tap<R::up>(i, 0); });
    }
    if constexpr (is_full_down) {
      keep_full(call.down, side_down * side_down, m.down_x,
                [&](int i) { return call.down.taps.full(i / side_down, i % side_down); });
    } else {
      keep(
          call.down, R::down, m.down_x, [](int i) { return i; }, m.down_y,
          [](int i) { return i / span + i % span * R::down; });
    }
    __syncthreads();
    return DownTaps(m.down_y);
  }

  __device__ Up make_up(bool later) const {
    if constexpr (is_full_up) {
      return Up(memory_.up_x, later);
    } else {
      return Up(memory_.up_x, memory_.up_y, later);
    }
  }

  __device__ static void put_row(float* to, const float (&row)[wide]) {
    *reinterpret_cast<Quad*>(to) = {row[0], row[1], row[2], row[3]};
  }

  Memory& memory_;
  DownTaps taps_;
  In in_;
  int mine_;  // where a thread's samples are in a row
  Up up_;
  OwnSigns signs_;
  Down down_;
  Outputs<R::down> outputs_;
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
