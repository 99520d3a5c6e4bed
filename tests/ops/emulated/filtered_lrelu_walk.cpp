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

// Launches a walk as filtered_lrelu.cu does.
template <class R, class Act, class T>
void launch(Call<T, R::is_backward> call, const Act& act, int processors, std::vector<double>& partials) {
  const Filtering &up = call.up.filtering, &grad = call.grad.filtering, &down = call.down.filtering;
  const WalkStart y = WalkStart::of(R{}, up.y, grad.y, down.y, 0), x = WalkStart::of(R{}, up.x, grad.x, down.x, 0);
  if (!y.fits || !x.fits) throw std::runtime_error("groups do not begin as a walk has them");
  const Strips strips(R{}, call.out.size[2], call.out.size[3], call.out.size[1], processors);
  call.items = {1, call.out.size[1], strips.tiles(), false};
  partials.assign(static_cast<size_t>(call.items.count()), 0);
  call.partials = {R::is_backward ? partials.data() : nullptr};
  const auto run = [&](auto kernel) {
    emulated::launch(static_cast<unsigned>(strips.blocks()), R::threads, [&] { kernel(WalkCall(call), act, strips); });
  };
  run(y.later ? walk<R, true, Act> : walk<R, false, Act>);
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
  std::vector<double> partials;
  const Pass first(filters.up, fu), second(filters.down, fd);
  launch<Rates<false, up, up, down, is_full>>(
      Call<T, false>{view_x,
                     {},
                     view_b,
                     images(y.data(), call.channels, definition.height, definition.width),
                     first,
                     first,
                     second,
                     {},
                     0,
                     {}},
      Activate<float>(activation), processors, partials);
  const Pass grad(filters.down.transposed(), fd), last(filters.up.transposed(), fu);
  launch<Rates<true, up, down, up, is_full>>(
      Call<T, true>{view_x,
                    images<const T>(grad_y.data(), call.channels, definition.height, definition.width),
                    view_b,
                    images(grad_x.data(), call.channels, call.height, call.width),
                    first,
                    grad,
                    last,
                    {},
                    0,
                    {}},
      Differentiate<float>(activation), processors, partials);

  Difference of_y, of_grad, of_sums;
  for (size_t c = 0; c < channels; ++c) {
    std::vector<double> u(static_cast<size_t>(definition.u_height) * definition.u_width), made(out), wanted(size);
    std::vector<double> grad_u(u.size());
    definition.each_of_up([&](int to, int from, double weight) {
      u[to] += weight * (static_cast<float>(x[c * size + from]) + static_cast<float>(b[c]));
    });
    std::vector<double> slopes(u.size());
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
  const bool is_right = of_y.is_small(limit) && of_grad.is_small(10 * limit) && of_sums.is_small(10 * limit);
  if (!is_right) {
    std::printf("up %d, down %d, %s, %d x %d, padding %d and %d: y %g, grad_x %g, sums %g\n", up, down,
                is_full ? "full" : "separable", call.height, call.width, call.pad_y, call.pad_x, of_y.most / of_y.scale,
                of_grad.most / of_grad.scale, of_sums.most / of_sums.scale);
  }
  return is_right;
}

}  // namespace

int main() {
  bool is_right = true;
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
