// filtered_lrelu on a GPU: which kernel serves a call.
#include "../_filters/channel_sums.cuh"
#include "bands.cuh"
#include "direct.cuh"
#include "tiles.cuh"

using namespace opsmith;
using namespace opsmith::ops::filters;
using namespace opsmith::ops::filtered_lrelu;

namespace opsmith::ops::filtered_lrelu {
namespace {

// What a block may have without being asked for more, on every GPU.
constexpr int64_t most_shared_bytes = 48 << 10;

// The shared memory of a block; a block's sums need some of it, too.
template <class C, class Shape>
int64_t shared_bytes(const Shape& shape, const Pass& up, const Pass& grad, const Pass& down) {
  const auto kept = [](const Pass& pass) {
    return pass.filtering.separable ? pass.filtering.y.taps + pass.filtering.x.taps
                                    : pass.filtering.y.taps * pass.filtering.x.taps;
  };
  const int64_t elements = shape.layout().taps + kept(up) + kept(grad) + kept(down);
  constexpr int64_t least = threads * sizeof(double);
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(C));
  return bytes > least ? bytes : least;
}

// A call and where its tiles' sums are.
template <class T, bool is_backward, class Act>
class Launch {
  using C = compute_t<T>;

 public:
  Launch(const char* op, const Call<T, is_backward>& call, const Act& act, const View<T, 1>& grad_b, Stream stream)
      : op_(op), call_(call), act_(act), grad_b_(grad_b), stream_(stream) {
    call_.items = {call.out.size[0], call.out.size[1], 0, call.out.stride[1] == 1 && call.x.stride[1] == 1};
  }

  void operator()() {
    const Filtering &up = call_.up.filtering, &down = call_.down.filtering;
    const auto is = [](const Filtering& filtering, int up, int down, int taps) {
      const auto fits = [&](const Axis& axis) { return axis.up == up && axis.down == down && axis.taps == taps; };
      return filtering.separable && fits(filtering.y) && fits(filtering.x);
    };
    if (!is_small()) return run_directly();
    // float64 would need half the tile; it goes the general way.
    if constexpr (sizeof(T) <= 4) {
      // `grad` is the second filter's transposed; forward it is `up`.
      const Filtering& grad = call_.grad.filtering;
      if (is(up, 2, 1, 12) && is(grad, 2, 1, 12) && is(down, 1, 2, 12) && try_bands()) return;
      if constexpr (is_backward) {
        // `down` is the first filter's transposed.
        if (is(up, 2, 1, 12) && is(grad, 2, 1, 12)) return run_fixed<2, 12, 2, 12, 2, 12, 32, 32>();
        if (is(up, 4, 1, 24) && is(grad, 2, 1, 12)) return run_fixed<4, 24, 2, 12, 4, 24, 12, 16>();
        if (is(up, 2, 1, 12) && is(grad, 4, 1, 24)) return run_fixed<2, 12, 4, 24, 2, 12, 32, 32>();
      } else {
        if (is(up, 2, 1, 12) && is(down, 1, 2, 12)) return run_fixed<2, 12, 2, 12, 2, 12, 32, 32>();
        if (is(up, 4, 1, 24) && is(down, 1, 2, 12)) return run_fixed<4, 24, 4, 24, 2, 12, 32, 32>();
        if (is(up, 2, 1, 12) && is(down, 1, 4, 24)) return run_fixed<2, 12, 2, 12, 4, 24, 16, 16>();
      }
    }
    run_any();
  }

 private:
  // Whether every coordinate fits into an int, also times a factor, and every filter has few taps.
  bool is_small() const {
    constexpr int64_t most = int64_t{1} << 30, most_taps = int64_t{1} << 12;
    for (const Pass* pass : {&call_.up, &call_.grad, &call_.down}) {
      for (const Axis* axis : {&pass->filtering.y, &pass->filtering.x}) {
        if (axis->in >= most / axis->up || axis->out >= most / axis->down || axis->taps > most_taps) return false;
        if (axis->pad >= most || axis->pad <= -most) return false;
      }
    }
    return true;
  }

  // Bands need rows without gaps, and both axes to begin at the same phase.
  bool try_bands() {
    const View<const T, 4>& samples = is_backward ? call_.grad_y : call_.x;
    const auto has_rows = [](const auto& view) { return view.numel() == 0 || view.stride[3] == 1; };
    const auto begins_later = [&](const Pass& pass, bool& later) {
      const auto is_later = [](const Axis& of, const Axis& down) { return of.first_tap(-down.pad) == 0; };
      later = is_later(pass.filtering.y, call_.down.filtering.y);
      return later == is_later(pass.filtering.x, call_.down.filtering.x);
    };
    bool later = false, other = false;
    if (!has_rows(call_.x) || !has_rows(samples) || !has_rows(call_.out)) return false;
    if (!begins_later(is_backward ? call_.grad : call_.up, later)) return false;
    if (is_backward && !(begins_later(call_.up, other) && !other)) return false;
    const View<T, 4>& out = call_.out;
    using Made = OutputColumns<Work<is_backward>::wide>;
    Bands bands(out.size[2], out.size[3], out.size[0] * out.size[1], Made::outputs, Made::margin,
                Work<is_backward>::threads);
    // A thread has many rows, one after another: where there are few threads, tiles are done earlier.
    constexpr int64_t enough_threads = 1 << 14;
    if (bands.all * bands.units < enough_threads || bands.blocks() >= int64_t{1} << 31) return false;
    const auto is_even = [](int64_t stride) { return stride % Made::outputs == 0; };
    bands.vector_stores = is_aligned(out.data, Made::outputs * static_cast<int>(sizeof(T))) && is_even(out.stride[0]) &&
                          is_even(out.stride[1]) && is_even(out.stride[2]);
    call_.items.tiles = int64_t{bands.across} * bands.count;
    run([&](unsigned) {
      const auto launch = [&](auto kernel) {
        kernel<<<static_cast<unsigned>(bands.blocks()), bands.threads(), 0, stream_>>>(call_, act_, bands);
      };
      if (later) {
        launch(make_bands<T, is_backward, true, Act>);
      } else {
        launch(make_bands<T, is_backward, false, Act>);
      }
    });
    return true;
  }

  template <int up, int up_taps, int grad, int grad_taps, int down, int down_taps, int height, int width>
  void run_fixed() {
    using Shape = FixedShape<C, up, up_taps, grad, grad_taps, down, down_taps, height, width, is_backward>;
    static_assert(Shape::layout().taps + 2 * (up_taps + (is_backward ? grad_taps : 0) + down_taps) <=
                  most_shared_bytes / static_cast<int64_t>(sizeof(float)));
    run_tiles(Shape{});
  }

  // Tiles as large as shared memory allows, if any.
  void run_any() {
    for (int height = 32, width = 32; height * width >= 4;) {
      const AnyShape<C> shape(call_.up.filtering, call_.grad.filtering, call_.down.filtering, height, width);
      if (bytes_of(shape) <= most_shared_bytes) return run_tiles(shape);
      (height < width ? width : height) /= 2;
    }
    run_directly();
  }

  template <class Shape>
  int64_t bytes_of(const Shape& shape) const {
    return shared_bytes<C>(shape, call_.up, call_.grad, call_.down);
  }

  template <class Shape>
  void run_tiles(const Shape& shape) {
    const int64_t height = shape.down_y().outputs, width = shape.down_x().outputs;
    call_.tiles_x = static_cast<int>((call_.out.size[3] + width - 1) / width);
    call_.items.tiles = (call_.out.size[2] + height - 1) / height * call_.tiles_x;
    run([&](unsigned blocks) {
      make_tiles<Shape, T, is_backward>
          <<<blocks, threads, static_cast<size_t>(bytes_of(shape)), stream_>>>(shape, call_, act_);
    });
  }

  void run_directly() {
    call_.items.tiles = (call_.out.size[2] * call_.out.size[3] + threads - 1) / threads;
    run([&](unsigned blocks) { make_directly<T, is_backward><<<blocks, threads, 0, stream_>>>(call_, act_); });
  }

  // Launches a kernel, and the one that adds up its sums.
  template <class Kernel>
  void run(const Kernel& kernel) {
    const Workspace<double> partials(grad_b_ ? call_.items.count() : 0);
    call_.partials = {grad_b_ ? partials.data : nullptr};
    kernel(blocks_for(call_.items.count(), 1));
    check_launch(op_);
    if (!grad_b_) return;
    sum_channels<<<blocks_for(grad_b_.size[0], 1), GridSum::threads, 0, stream_>>>(
        partials.data, call_.items.images * call_.items.tiles, grad_b_);
    check_launch(op_);
  }

  const char* op_;
  Call<T, is_backward> call_;
  Act act_;
  View<T, 1> grad_b_;
  Stream stream_;
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu

template <class T>
void filtered_lrelu_sized(View<const T, 4> x, View<const float, 2> fu, View<const float, 2> fd, View<const T, 1> b,
                          Oversampling oversampling, Activation activation, View<T, 4> y, Stream stream) {
  const Activate<compute_t<T>> act(activation);
  const Filters filters = read_filters(fu, fd, x.size[2], x.size[3], oversampling);
  if (y.numel() == 0) return;
  const Pass first(filters.up, fu), second(filters.down, fd);
  const Call<T, false> call{x, {}, b, y, first, first, second, {}, 0, {}};
  Launch("filtered_lrelu_sized", call, act, View<T, 1>{}, stream)();
}

template <class T>
void filtered_lrelu_backward(View<const T, 4> grad_y, View<const T, 4> x, View<const float, 2> fu,
                             View<const float, 2> fd, View<const T, 1> b, Oversampling oversampling,
                             Activation activation, bool needs_grad_b, View<T, 4> grad_x, View<T, 1> grad_b,
                             Stream stream) {
  const Differentiate<compute_t<T>> act(activation);
  const Filters filters = read_filters(fu, fd, x.size[2], x.size[3], oversampling);
  const View<T, 1> sums = needs_grad_b ? grad_b : View<T, 1>{};
  if (grad_x.numel() == 0) {
    if (!sums || sums.size[0] == 0) return;
    sum_channels<<<blocks_for(sums.size[0], 1), GridSum::threads, 0, stream>>>(nullptr, 0, sums);
    return check_launch("filtered_lrelu_backward");
  }
  const Pass first(filters.up, fu), grad(filters.down.transposed(), fd), last(filters.up.transposed(), fu);
  const Call<T, true> call{x, grad_y, b, grad_x, first, grad, last, {}, 0, {}};
  Launch("filtered_lrelu_backward", call, act, sums, stream)();
}
