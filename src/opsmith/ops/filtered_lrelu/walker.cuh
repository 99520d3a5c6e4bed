// A thread on its way down columns of u, with all that it keeps in registers and shares with its block: see walk.cuh.
#pragma once

#include "down_rows.cuh"
#include "nonlinearity.cuh"
#include "up_rows.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

// What is in place of what a call does not have.
struct Nothing {
  static constexpr int rows = 1, kept = 0;
  OPSMITH_HOST_DEVICE static constexpr int room(int) { return 4; }

  template <class... Arguments>
  __device__ explicit Nothing(Arguments...) {}
};

// A thread on its way down, with all that it keeps.
template <class R, bool later_y>
class Walker {
  static constexpr bool is_backward = R::is_backward, is_full_up = R::is_full && is_backward,
                        is_full_down = R::is_full && !is_backward;
  using X = Samples<R::up>;
  using G = std::conditional_t<is_backward, Samples<R::grad>, Nothing>;
  using Up = UpRows<R::up, later_y && !is_backward, !is_backward, !is_backward>;
  using Grad = std::conditional_t<
      !is_backward, Nothing,
      std::conditional_t<is_full_up, FullUpRows<R::grad, later_y>, UpRows<R::grad, later_y, true, false>>>;
  using Down = std::conditional_t<is_full_down, FullDownRows<R::down>, DownRows<R::down>>;

  using DownTaps = std::conditional_t<is_backward || is_full_down, Nothing, TapsAlongY<R::down, true>>;

  // The last threads' outputs are not kept; they read beyond the others' columns.
  static constexpr int room = (R::threads + (span * R::down + 3) / 4) * wide;
  static constexpr int room_x = X::room(R::threads), room_g = G::room(R::threads);
  static constexpr int taps_pitch = TapsAlongY<1, true>::pitch;
  static constexpr int side_up = span * R::up, side_grad = span * R::grad, side_down = span * R::down;

 public:
  // What the threads of a block share.
  struct alignas(16) Memory {
    // What is filtered along x. A full filter takes u, or leaves its numbers here, each thread for itself.
    float rows[R::is_full ? turn : turn / R::down][room];
    float samples_x[X::rows][room_x], samples_g[(is_full_up ? 2 : 1) * G::rows][room_g];
    // Taps along x, or of a full filter, and along y.
    float up_x[side_up], grad_x[is_full_up ? side_grad * side_grad : side_grad];
    float down_x[is_full_down ? side_down * side_down : side_down];
    float up_y[R::up * taps_pitch], grad_y[R::grad * taps_pitch], down_y[R::down * taps_pitch];
  };

  __device__ Walker(const WalkCall& call, const StripPlace& place, const Strips& strips, const WalkStart& y,
                    const WalkStart& x, Memory& memory)
      : memory_(memory),
        taps_(keep_taps(call, x.later)),
        x_(call.x, call.element, place, strips.units, y.sample - before<X, Up>, x.sample, call.bias(place.at.channel)),
        g_(call.grad_y, call.element, place, strips.units, y.grad - before<G, Grad>, x.grad, no_bias<float>),
        my_x_(X::first(place, strips.units)),
        my_g_(my_place<G>(place, strips.units)),
        up_(memory.up_x, memory.up_y, x.later),
        grad_(make_grad(x.later)),
        outputs_(call, place, strips, y, x),
        u_row_(static_cast<unsigned>(y.u)),
        u_height_(static_cast<unsigned>(call.grad.filtering.y.out)) {
#pragma unroll
    for (int c = 0; c < wide; ++c) {
      const unsigned column = static_cast<unsigned>(x.u + place.unit * wide + c);
      has_[c] = !is_backward || column < static_cast<unsigned>(call.grad.filtering.x.out);
    }
    take_kept(x_, up_, &memory.samples_x[0][0], room_x, my_x_);
    if constexpr (is_full_up) {
      g_.read();
      g_.put(&memory.samples_g[G::rows][0], room_g);
    } else if constexpr (is_backward) {
      take_kept(g_, grad_, &memory.samples_g[0][0], room_g, my_g_);
    }
    __syncthreads();
    read();
  }

  // Begins to read the samples of the next turn.
  __device__ void read() {
    x_.read();
    if constexpr (is_backward) g_.read();
  }

  // Makes the rows of turn n that are filtered along x.
  __device__ void walk(int n, const Nonlinearity& nonlinearity) {
    const int half = is_full_up ? n % 2 * G::rows : 0;
    x_.put(&memory_.samples_x[0][0], room_x);
    if constexpr (is_backward) g_.put(&memory_.samples_g[half][0], room_g);
    __syncthreads();
    float* mine = &memory_.rows[0][threadIdx.x * wide];
    if constexpr (is_full_up) {
      grad_.make(&memory_.samples_g[G::rows - half][my_g_], &memory_.samples_g[half][my_g_], room_g, mine, room);
    }
#pragma unroll 1
    for (int s = 0; s < turn; s += step) {
      up_.take(&memory_.samples_x[s / R::up][my_x_], room_x);
      if constexpr (is_backward && !is_full_up) grad_.take(&memory_.samples_g[s / R::grad][my_g_], room_g);
#pragma unroll
      for (int i = 0; i < step; ++i) {
        float numbers[wide];
        float tap[span];
        up_.make(i, numbers, tap);
        if constexpr (is_backward) {
          float grads[wide];
          if constexpr (is_full_up) {
            load_floats<4>(mine + (s + i) * room, grads);
          } else {
            float grad_tap[span];
            grad_.make(i, grads, grad_tap);
          }
          const bool is_inside = u_row_ + s + i < u_height_;
#pragma unroll
          for (int c = 0; c < wide; ++c) numbers[c] = nonlinearity.gradient(grads[c], numbers[c], is_inside);
          // The last filter takes a row by the taps that made it, for it is the first one's transposed.
#pragma unroll
          for (int j = 0; j < span / 2; ++j) {
            const float other = tap[j];
            tap[j] = tap[span - 1 - j];
            tap[span - 1 - j] = other;
          }
        } else {
#pragma unroll
          for (int c = 0; c < wide; ++c) numbers[c] = nonlinearity.value(numbers[c]);
          if constexpr (!is_full_down) taps_.load(i % R::down, tap);
        }
        if constexpr (is_full_down) {
          put_row(mine + (s + i) * room, numbers);
        } else {
          down_.add(i, numbers, tap);
          if (down_.completes(i)) put_row(mine + (s + i) / R::down * room, down_.row(i));
        }
      }
      up_.advance();
      if constexpr (is_backward && !is_full_up) grad_.advance();
      if constexpr (!is_full_down) down_.advance();
    }
    u_row_ += turn;
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
  template <class In, class Rows>
  static constexpr int rounds = (Rows::kept + In::rows - 1) / In::rows;
  template <class In, class Rows>
  static constexpr int before = rounds<In, Rows> * In::rows - Rows::kept;

  template <class In, class Rows>
  __device__ static void take_kept(In& in, Rows& rows, float* samples, int room, int mine) {
    for (int round = 0; round < rounds<In, Rows>; ++round) {
      in.read();
      __syncthreads();
      in.put(samples, room);
      __syncthreads();
#pragma unroll 1
      for (int r = 0; r < In::rows; r += Rows::fresh) {
        rows.take(samples + r * room + mine, room);
        rows.advance();
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
      along_y[i / span * taps_pitch + i % span] = pass.taps(0, y_of(i)) * gain + nothing;
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

  // Keeps all taps, and returns those along y of the last filter; backward they are the first one's.
  __device__ DownTaps keep_taps(const WalkCall& call, bool later) const {
    const int first_up = !is_backward && later ? 1 : 0, first_grad = is_backward && later ? 1 : 0;
    Memory& m = memory_;
    keep(
        call.up, R::up, m.up_x, [&](int i) { return up_tap<R::up>(i, first_up); }, m.up_y,
        [](int i) { return up_tap<R::up>(i, 0); });
    if constexpr (is_full_up) {
      keep_full(call.grad, side_grad * side_grad, m.grad_x, [&](int i) {
        return call.grad.taps.full(up_tap<R::grad>(i / side_grad, 0), up_tap<R::grad>(i % side_grad, first_grad));
      });
    } else if constexpr (is_backward) {
      keep(
          call.grad, R::grad, m.grad_x, [&](int i) { return up_tap<R::grad>(i, first_grad); }, m.grad_y,
          [](int i) { return up_tap<R::grad>(i, 0); });
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

  __device__ Grad make_grad(bool later) const {
    if constexpr (is_full_up) {
      return Grad(memory_.grad_x, later);
    } else {
      return Grad(memory_.grad_x, memory_.grad_y, later);
    }
  }

  template <class In>
  __device__ static int my_place(const StripPlace& place, int units) {
    if constexpr (is_backward) return In::first(place, units);
    return 0;
  }

  // Beyond its edges there is no u, and backward no gradient of it, whatever the filter makes there.
  __device__ void put_row(float* to, const float (&row)[wide]) const {
    Quad quad;
#pragma unroll
    for (int c = 0; c < wide; ++c) quad.item[c] = !is_backward || has_[c] ? row[c] : 0.0f;
    *reinterpret_cast<Quad*>(to) = quad;
  }

  Memory& memory_;
  DownTaps taps_;
  X x_;
  G g_;
  int my_x_, my_g_;  // where a thread's samples are in a row
  Up up_;
  Grad grad_;
  Down down_;
  Outputs<R::down> outputs_;
  unsigned u_row_, u_height_;
  bool has_[wide];
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
