// filtered_lrelu's walks on a CPU, held to the definition in float64: every pair of factors, wherever groups begin,
// with separable and full filters, for strips of few and of many turns.
#include "gpu_on_threads.h"

namespace opsmith::ops::filtered_lrelu {
namespace {
alignas(16) unsigned char memory[1 << 18];  // a block's shared memory
}
}  // namespace opsmith::ops::filtered_lrelu

#include <cstdio>
#include <random>

#include "../../../src/opsmith/ops/filtered_lrelu/walk.cuh"

namespace {

using namespace opsmith;
using namespace opsmith::ops::filtered_lrelu;

std::mt19937 generator(1);

template <class T>
void fill_at_random(std::vector<T>& values, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  for (T& value : values) value = static_cast<T>(static_cast<float>(normal(generator)));
}

struct Case {
  int up, down, channels, height, width, pad_y, pad_x;
  bool is_full, flip;
  double clamp;
};

// Every number of the definition, by loops over taps.
class Definition {
 public:
  Definition(const Case& call) : call_(call), side_up(6 * call.up), side_down(6 * call.down) {
    const auto out = [&](int size, int pad) {
      return (size * call.up + 2 * pad - side_up - side_down + 2) / call.down + 1;
    };
    // The last one may be made of what is beyond the padding's end, where `down` does not divide; it is not kept.
    height = out(call.height, call.pad_y) - 1;
    width = out(call.width, call.pad_x) - 1;
    u_height = (height - 1) * call.down + side_down;
    u_width = (width - 1) * call.down + side_down;
    fu.resize(2 * static_cast<size_t>(side_up));
    fd.resize(static_cast<size_t>((call.is_full ? side_down : 2) * side_down));
    fill_at_random(fu, 0.4);
    fill_at_random(fd, call.is_full ? 0.1 : 0.4);
  }

  // add(place of u, place of x, weight) for all that the first filter multiplies, and likewise for the second one.
  template <class Add>
  void each_of_up(const Add& add) const {
    for (int y = 0; y < u_height; ++y) {
      for (int ky = (((call_.pad_y - y) % call_.up) + call_.up) % call_.up; ky < side_up; ky += call_.up) {
        const int row = (y + ky - call_.pad_y) / call_.up;
        if (y + ky < call_.pad_y || row >= call_.height) continue;
        for (int x = 0; x < u_width; ++x) {
          for (int kx = (((call_.pad_x - x) % call_.up) + call_.up) % call_.up; kx < side_up; kx += call_.up) {
            const int column = (x + kx - call_.pad_x) / call_.up;
            if (x + kx < call_.pad_x || column >= call_.width) continue;
            const double weight = double(fu[tap(ky, side_up)]) * fu[side_up + tap(kx, side_up)];
            add(y * u_width + x, row * call_.width + column, weight * call_.up * call_.up);
          }
        }
      }
    }
  }

  template <class Add>
  void each_of_down(const Add& add) const {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int ky = 0; ky < side_down; ++ky) {
          for (int kx = 0; kx < side_down; ++kx) {
            const int row = tap(ky, side_down), column = tap(kx, side_down);
            const double weight =
                call_.is_full ? fd[row * side_down + column] : double(fd[row]) * fd[side_down + column];
            add(y * width + x, (y * call_.down + ky) * u_width + x * call_.down + kx, weight);
          }
        }
      }
    }
  }

  View<const float, 2> up_taps() const { return {fu.data(), {2, side_up}, {side_up, 1}}; }
  View<const float, 2> down_taps() const {
    return {fd.data(), {call_.is_full ? side_down : 2, side_down}, {side_down, 1}};
  }

 private:
  int tap(int k, int taps) const { return call_.flip ? k : taps - 1 - k; }

  Case call_;
  int side_up, side_down;
  std::vector<float> fu, fd;

 public:
  int height, width, u_height, u_width;
};

template <class T>
View<T, 4> images(T* data, int64_t channels, int64_t height, int64_t width) {
  return {data, {1, channels, height, width}, {channels * height * width, height * width, width, 1}};
}

// Launches a walk as signed.cu does.
template <class R>
void launch(WalkCall call, const Nonlinearity& nonlinearity, int processors, std::vector<double>& partials) {
  const Bytes& out = call.out;
  const Strips strips(R{}, out.size[2], out.size[3], out.size[1], processors);
  call.items = {1, out.size[1], strips.tiles(), false};
  partials.assign(static_cast<size_t>(call.items.count()), 0);
  call.partials = {R::is_backward ? partials.data() : nullptr};
  const auto run = [&](auto kernel) {
    emulated::launch(static_cast<unsigned>(strips.blocks()), R::threads, [&] { kernel(call, nonlinearity, strips); });
  };
  const WalkStart y = WalkStart::of(R{}, call.up.filtering.y, call.down.filtering.y, 0);
  run(y.later ? walk<R, true> : walk<R, false>);
}

// The largest difference against the largest number.
struct Difference {
  double most = 0, scale = 0;

  void add(double found, double expected) {
    const double difference = std::abs(found - expected);
    if (!(difference <= most)) most = difference;
    scale = std::max(scale, std::abs(expected));
  }
  bool is_small(double limit) const { return most <= limit * scale; }
};

template <int up, int down, bool is_full, class T>
bool agrees(Case call, int processors, double limit) {
  call.up = up;
  call.down = down;
  call.is_full = is_full;
  const Definition definition(call);
  const int size = call.height * call.width, out = definition.height * definition.width;
  const size_t channels = static_cast<size_t>(call.channels);
  std::vector<T> x(channels * size), b(channels), grad_y(channels * out), y(channels * out), grad_x(channels * size);
  std::vector<T> without_signs(channels * out);
  fill_at_random(x);
  fill_at_random(b);
  fill_at_random(grad_y);
  constexpr double gain = 1.5, slope = 0.25;
  const Oversampling oversampling{definition.height, definition.width, up, down, call.pad_y, call.pad_x, true,
                                  !is_full,          call.flip};
  const Activation activation{gain, slope, call.clamp > 0 ? Optional<double>{true, call.clamp} : Optional<double>{}};
  const View<const float, 2> fu = definition.up_taps(), fd = definition.down_taps();
  const Filters filters = read_filters(fu, fd, call.height, call.width, oversampling);
  const auto view_x = images<const T>(x.data(), call.channels, call.height, call.width);
  const View<const T, 1> view_b{b.data(), {call.channels}, {1}};
  const Nonlinearity nonlinearity{Activate<float>(activation)};
  std::vector<double> partials;
  // What is never written stays all ones: positive, and blocked.
  const int shift_y = sign_shift(call.pad_y, up, down), shift_x = sign_shift(call.pad_x, up, down);
  const int rows = (definition.u_height + shift_y + 3) / 4, columns = (definition.u_width + shift_x + 3) / 4;
  std::vector<uint32_t> bits(channels * rows * columns, 0xFFFFFFFFu);
  const Signs signs{bits.data(),         call.channels,     rows, columns, shift_y, shift_x,
                    definition.u_height, definition.u_width};
  const Pass first(filters.up, fu), second(filters.down, fd);
  const auto forward = [&](auto rates, T* to) {
    const Bytes made = Bytes::of(images(to, call.channels, definition.height, definition.width));
    launch<decltype(rates)>({Bytes::of(view_x), Bytes::of(view_b), made, element_of<T>, first, second, {}, {}, signs},
                            nonlinearity, processors, partials);
  };
  forward(Rates<false, up, down, is_full, true>{}, y.data());
  forward(Rates<false, up, down, is_full>{}, without_signs.data());
  const Pass grad(filters.down.transposed(), fd), last(filters.up.transposed(), fu);
  const auto view_grad = images<const T>(grad_y.data(), call.channels, definition.height, definition.width);
  const auto view_out = images(grad_x.data(), call.channels, call.height, call.width);
  launch<Rates<true, down, up, is_full>>(
      {Bytes::of(view_grad), {}, Bytes::of(view_out), element_of<T>, grad, last, {}, {}, signs}, nonlinearity,
      processors, partials);

  Difference of_y, of_grad, of_sums;
  int wrong_signs = 0;
  for (size_t c = 0; c < channels; ++c) {
    std::vector<double> u(static_cast<size_t>(definition.u_height) * definition.u_width), made(out), wanted(size);
    std::vector<double> grad_u(u.size());
    definition.each_of_up([&](int to, int from, double weight) {
      u[to] += weight * (static_cast<float>(x[c * size + from]) + static_cast<float>(b[c]));
    });
    std::vector<double> slopes(u.size());
    for (int y = 0; y < 4 * rows; ++y) {
      for (int x = 0; x < 4 * columns; ++x) {
        const uint32_t two = bits[(c * rows + y / 4) * columns + x / 4] >> (8 * (y % 4) + 2 * (x % 4)) & 3;
        const int row = y - shift_y, column = x - shift_x;
        if (row < 0 || row >= definition.u_height || column < 0 || column >= definition.u_width) {
          if (two != 2) ++wrong_signs;
          continue;
        }
        const double number = u[row * definition.u_width + column], reached = std::abs(number) * gain;
        const double made = number > 0 ? reached : slope * reached;
        const bool is_blocked = call.clamp > 0 && made >= call.clamp;
        // Rounding decides about others.
        const bool is_plain = std::abs(number) > 1e-3 && std::abs(made - call.clamp) > 1e-3 * call.clamp;
        if (is_plain && two != (is_blocked ? 2u : number > 0 ? 1u : 0u)) ++wrong_signs;
      }
    }
    for (size_t i = 0; i < u.size(); ++i) {
      slopes[i] = gain * (u[i] > 0 ? 1 : slope);
      u[i] *= slopes[i];
      if (call.clamp > 0 && std::abs(u[i]) >= call.clamp) {
        slopes[i] = 0;
        u[i] = u[i] > 0 ? call.clamp : -call.clamp;
      }
    }
    definition.each_of_down([&](int to, int from, double weight) {
      made[to] += weight * u[from];
      grad_u[from] += weight * static_cast<float>(grad_y[c * out + to]);
    });
    definition.each_of_up([&](int from, int to, double weight) { wanted[to] += weight * slopes[from] * grad_u[from]; });
    for (int i = 0; i < out; ++i) of_y.add(static_cast<float>(y[c * out + i]), made[i]);
    double sum = 0, found = 0;
    for (int i = 0; i < size; ++i) {
      of_grad.add(static_cast<float>(grad_x[c * size + i]), wanted[i]);
      sum += wanted[i];
    }
    for (size_t i = 0; i < partials.size() / channels; ++i) found += partials[c * partials.size() / channels + i];
    of_sums.add(found / size, sum / size);
  }
  of_sums.scale = of_grad.scale;
  bool is_right = std::memcmp(y.data(), without_signs.data(), sizeof(T) * y.size()) == 0;
  if (!is_right) std::printf("signs change results\n");
  if (wrong_signs > 0) std::printf("%d signs are wrong\n", wrong_signs);
  is_right = is_right && wrong_signs == 0;
  is_right &= of_y.is_small(limit) && of_grad.is_small(10 * limit) && of_sums.is_small(10 * limit);
  if (!is_right) {
    std::printf("up %d, down %d, %s, %d x %d, padding %d and %d: y %g, grad_x %g, sums %g\n", up, down,
                is_full ? "full" : "separable", call.height, call.width, call.pad_y, call.pad_x, of_y.most / of_y.scale,
                of_grad.most / of_grad.scale, of_sums.most / of_sums.scale);
  }
  return is_right;
}

// Whether strips of every width have threads enough, and cover all outputs.
template <class R>
bool are_covered(R rates) {
  for (int64_t width = 1; width < 3'000'000; width += width < 100'000 ? 1 : 997) {
    const Strips strips(rates, 3, width, 2, 132);
    const int64_t across = strips.across, each = strips.width;
    const bool fits = strips.units > 0 && strips.units * strips.in_block <= R::threads;
    if (!fits || across * each < width || (across - 1) * each >= width) {
      std::printf("%lld outputs, up %d, down %d: %lld strips of %lld, of %d threads\n", static_cast<long long>(width),
                  R::up, R::down, static_cast<long long>(across), static_cast<long long>(each), strips.units);
      return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  bool is_right = true;
  is_right &= are_covered(Rates<false, 2, 2, false>{}) && are_covered(Rates<true, 2, 2, false>{});
  is_right &= are_covered(Rates<false, 4, 2, false>{}) && are_covered(Rates<true, 4, 2, false>{});
  is_right &= are_covered(Rates<false, 2, 4, false>{}) && are_covered(Rates<true, 2, 4, false>{});
  is_right &= are_covered(Rates<false, 2, 2, true>{}) && are_covered(Rates<true, 4, 2, true>{});
  // Where the groups of each axis begin depends on its padding; few processors have few strips, of many turns.
  for (int pad = 0; pad < 4; ++pad) {
    const int pad_y = 11 + pad, pad_x = 11 + (pad * 3 + 1) % 4, processors = pad % 2 == 0 ? 1 : 100;
    const double clamp = pad < 2 ? 2.0 : 0.0;
    const bool flip = pad % 3 == 0;
    is_right &= agrees<2, 2, false, float>({0, 0, 2, 21, 17, pad_y, pad_x, false, flip, clamp}, processors, 1e-5);
    is_right &=
        agrees<4, 2, false, float>({0, 0, 2, 14, 9, pad_y + 8, pad_x + 8, false, flip, clamp}, processors, 1e-5);
    is_right &=
        agrees<2, 4, false, float>({0, 0, 1, 30, 23, pad_y + 8, pad_x + 8, false, flip, clamp}, processors, 1e-5);
    is_right &= agrees<2, 2, true, float>({0, 0, 2, 21, 17, pad_y, pad_x, false, flip, clamp}, processors, 1e-5);
    is_right &= agrees<4, 2, true, float>({0, 0, 1, 14, 9, pad_y + 8, pad_x + 8, false, flip, clamp}, processors, 1e-5);
  }
  is_right &= agrees<2, 2, false, float16>({0, 0, 1, 16, 16, 11, 10, false, false, 0}, 1, 2e-3);
  is_right &= agrees<4, 2, false, bfloat16>({0, 0, 1, 9, 12, 20, 21, false, false, 0}, 1, 2e-2);
  // Wider than a block.
  is_right &= agrees<4, 2, false, float>({0, 0, 1, 6, 270, 20, 21, false, false, 0}, 1, 1e-5);
  std::printf("%s\n", is_right ? "filtered_lrelu_walk: passed" : "filtered_lrelu_walk: failed");
  return is_right ? 0 : 1;
}
