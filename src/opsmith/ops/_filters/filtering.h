// Which samples and taps an output of upfirdn2d is made of: shared by upfirdn2d.cpp and upfirdn2d.cu.
//
// Along one axis, out[o] = sum over k of g[k] * upsampled[o * down + k - pad]. upsampled is x at the multiples of up
// and zero elsewhere, so the taps that count are those for which o * down + k - pad is a multiple of up: every up-th,
// from first_tap(o) on, meeting the samples from first_input(o) on. (Polyphase filtering: Crochiere and Rabiner,
// Multirate Digital Signal Processing, 1983, chapter 3.)
#pragma once

#include <opsmith/kernel.h>

namespace opsmith::ops::filters {
namespace {

constexpr int64_t most_up_down = 256;
constexpr int64_t most_padding = int64_t{1} << 31;

template <class Index>
OPSMITH_HOST_DEVICE Index ceil_div(Index a, Index b) {
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

struct Axis {
  int64_t in, out;
  int64_t up, down, pad;
  int64_t taps;

  OPSMITH_HOST_DEVICE int64_t first_input(int64_t o) const { return ceil_div(o * down - pad, up); }
  OPSMITH_HOST_DEVICE int64_t first_tap(int64_t o) const { return first_input(o) * up - (o * down - pad); }
  // How many samples an output is made of, counting those outside of x.
  OPSMITH_HOST_DEVICE int64_t inputs(int64_t o) const {
    const int64_t first = first_tap(o);
    return first < taps ? (taps - first + up - 1) / up : 0;
  }
  // No output has more.
  OPSMITH_HOST_DEVICE int64_t most_inputs() const { return (taps + up - 1) / up; }

  // The axis of the gradient; its taps are reversed.
  Axis transposed() const { return {out, in, down, up, taps - 1 - pad, taps}; }
};

// One call. `reversed` tells that g is f from its end.
struct Filtering {
  Axis y, x;
  bool separable, reversed;
  double gain;

  Filtering transposed() const { return {y.transposed(), x.transposed(), separable, !reversed, gain}; }
};

inline void check_axis(const char* name, const Axis& axis) {
  if (axis.up < 1 || axis.up > most_up_down || axis.down < 1 || axis.down > most_up_down) {
    fail("up and down can be 1 to ", most_up_down, "; along ", name, " they are ", axis.up, " and ", axis.down);
  }
  if (axis.pad < -most_padding || axis.pad > most_padding) {
    fail("a padding has at most 31 bits; along ", name, " it is ", axis.pad);
  }
}

// What upfirdn2d's operators are called with, as its sized.py declares it.
struct Resampling {
  int64_t height, width, out_height, out_width, up_y, up_x, down_y, down_x, pad_y, pad_x;
  bool separable, flip;
  double gain;
};

// The filtering that a call asks for.
inline Filtering read_arguments(const View<const float, 2>& f, const Resampling& call) {
  if (call.separable && f.size[0] != 2) {
    fail("a separable filter has two rows, its taps along y and along x; found ", f.size[0]);
  }
  if (f.size[0] == 0 || f.size[1] == 0) fail("the filter has no taps: ", f.size[0], " x ", f.size[1]);
  const int64_t taps_y = call.separable ? f.size[1] : f.size[0];
  const Axis y{call.height, call.out_height, call.up_y, call.down_y, call.pad_y, taps_y};
  const Axis x{call.width, call.out_width, call.up_x, call.down_x, call.pad_x, f.size[1]};
  check_axis("y", y);
  check_axis("x", x);
  return {y, x, call.separable, !call.flip, call.gain};
}

}  // namespace
}  // namespace opsmith::ops::filters
