// filtered_lrelu on a GPU: which kernel serves a call.
#include "../_filters/channel_sums.cuh"
#include "direct.cuh"
#include "pointwise.cuh"
#include "tiles.cuh"

using namespace opsmith;
using namespace opsmith::ops::filters;
using namespace opsmith::ops::filtered_lrelu;

namespace opsmith::ops::filtered_lrelu {
namespace {

// What a block may have without being asked for more, on every GPU.
constexpr int64_t most_shared_bytes = 48 << 10;

// The shared memory of a block; a block's sums need some of it, too.
template <class C>
int64_t shared_bytes(const TileShape& shape, const Pass& up, const Pass& grad, const Pass& down) {
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
    if (try_pointwise()) return;
    if (!is_small()) return run_directly();
    run_any();
  }

 private:
  bool is_small() const {
    return has_small_sizes(call_.up.filtering) && has_small_sizes(call_.grad.filtering) &&
           has_small_sizes(call_.down.filtering);
  }

  bool try_pointwise() {
    if (!is_pointwise(call_.up.filtering) || !is_pointwise(call_.down.filtering)) return false;
    if (!has_planes(call_.x) || !has_planes(call_.out) || (is_backward && !has_planes(call_.grad_y))) return false;
    const bool is_wide = has_aligned_planes(call_.x, 16) && has_aligned_planes(call_.out, 16) &&
                         (!is_backward || has_aligned_planes(call_.grad_y, 16));
    constexpr int most = 16 / static_cast<int>(sizeof(T));
    const int64_t in_tile = int64_t{pointwise_loads} * threads * (is_wide ? most : 1);
    call_.items.tiles = (call_.out.size[2] * call_.out.size[3] + in_tile - 1) / in_tile;
    run([&](unsigned blocks) {
      const auto launch = [&](auto kernel) { kernel<<<blocks, threads, 0, stream_>>>(call_, act_); };
      if (is_wide) {
        launch(make_pointwise<T, is_backward, most, Act>);
      } else {
        launch(make_pointwise<T, is_backward, 1, Act>);
      }
    });
    return true;
  }

  // Tiles as large as shared memory allows, if any.
  void run_any() {
    for (int height = 32, width = 32; height * width >= 4;) {
      const TileShape shape(call_.up.filtering, call_.grad.filtering, call_.down.filtering, height, width);
      if (bytes_of(shape) <= most_shared_bytes) return run_tiles(shape);
      (height < width ? width : height) /= 2;
    }
    run_directly();
  }

  int64_t bytes_of(const TileShape& shape) const { return shared_bytes<C>(shape, call_.up, call_.grad, call_.down); }

  void run_tiles(const TileShape& shape) {
    const int64_t height = shape.down_y().outputs, width = shape.down_x().outputs;
    call_.tiles_x = static_cast<int>((call_.out.size[3] + width - 1) / width);
    call_.items.tiles = (call_.out.size[2] + height - 1) / height * call_.tiles_x;
    run([&](unsigned blocks) {
      make_tiles<T, is_backward>
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
