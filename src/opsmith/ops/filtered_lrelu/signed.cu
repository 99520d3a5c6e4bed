// filtered_lrelu on a GPU by walk.cuh's kernels: filters with six taps for each of their factor, and signs of u.
#include "../_filters/channel_sums.cuh"
#include "../_gpu/shared_memory.cuh"
#include "walk.cuh"

using namespace opsmith;
using namespace opsmith::ops::filters;
using namespace opsmith::ops::filtered_lrelu;
namespace gpu = opsmith::ops::gpu;

namespace opsmith::ops::filtered_lrelu {
namespace {

// What a block may have without being asked for more, on every GPU.
constexpr int most_shared_bytes = 48 << 10;

// The sizes of x, and of its signs, as signed.py declares them.
struct SignSizes {
  int64_t height, width, sign_rows, sign_columns;
};

// How many multiprocessors the current GPU has.
inline int multiprocessors() {
  int device = 0, count = 0;
#if defined(__HIPCC__)
  const bool is_known = hipGetDevice(&device) == hipSuccess &&
                        hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device) == hipSuccess;
#else
  const bool is_known = cudaGetDevice(&device) == cudaSuccess &&
                        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
#endif
  return is_known && count > 0 ? count : 100;
}

// Of u, whose filters are a call's. `data` is not set for one without signs.
Signs signs_of(const Filters& filters, const SignSizes& sizes, int64_t channels, const int32_t* data) {
  const Axis &y = filters.up.y, &x = filters.up.x;
  const int64_t down = filters.down.y.down;
  const int shift_y = sign_shift(y.pad, y.up, down), shift_x = sign_shift(x.pad, x.up, down);
  const auto blocks = [](int64_t size, int shift) { return (size + shift + sign_block - 1) / sign_block; };
  const int64_t rows = blocks(y.out, shift_y), columns = blocks(x.out, shift_x);
  if (sizes.sign_rows != rows || sizes.sign_columns != columns) {
    fail("these filters have signs of ", rows, " x ", columns, "; sign_rows and sign_columns are ", sizes.sign_rows,
         " and ", sizes.sign_columns);
  }
  return {reinterpret_cast<uint32_t*>(const_cast<int32_t*>(data)),
          channels,
          static_cast<int>(rows),
          static_cast<int>(columns),
          shift_y,
          shift_x,
          static_cast<int>(y.out),
          static_cast<int>(x.out)};
}

// A call, and where its bias' gradient goes.
template <class T>
struct WalkLaunch {
  const char* op;
  WalkCall call;
  Nonlinearity nonlinearity;
  View<T, 1> grad_b;
  Stream stream;

  // Launches the kernel of some factors, and the one that adds up its sums, if the call has these factors.
  template <class R>
  bool try_rates(R rates) {
    const auto is = [](const Pass& pass, int up, int down, bool is_full) {
      const auto fits = [&](const Axis& axis) {
        return axis.up == up && axis.down == down && axis.taps == span * up * down;
      };
      return fits(pass.filtering.y) && fits(pass.filtering.x) && pass.filtering.separable == !is_full;
    };
    if (!is(call.up, R::up, 1, R::is_full && R::is_backward)) return false;
    if (!is(call.down, 1, R::down, R::is_full && !R::is_backward)) return false;
    const Bytes& out = call.out;
    const Strips strips(rates, out.size[2], out.size[3], out.size[0] * out.size[1], multiprocessors());
    const bool channels_first = out.stride[1] == sizeof(T) && call.in.stride[1] == sizeof(T);
    call.items = {out.size[0], out.size[1], strips.tiles(), channels_first};
    const Workspace<double> partials(grad_b ? call.items.count() : 0);
    call.partials = {grad_b ? partials.data : nullptr};
    const WalkStart y = WalkStart::of(rates, call.up.filtering.y, call.down.filtering.y, 0);
    if (y.later) {
      run(walk<R, true>, sizeof(typename Walker<R, true>::Memory), strips, R::threads);
    } else {
      run(walk<R, false>, sizeof(typename Walker<R, false>::Memory), strips, R::threads);
    }
    if (grad_b) {
      sum_channels<<<blocks_for(grad_b.size[0], 1), GridSum::threads, 0, stream>>>(
          partials.data, call.items.images * call.items.tiles, grad_b);
      check_launch(op);
    }
    return true;
  }

  template <class... Rs>
  void operator()(Rs... rates) {
    if (!has_small_sizes(call.up.filtering) || !has_small_sizes(call.down.filtering)) {
      fail("an image can have up to 2^30 pixels along an axis");
    }
    if ((try_rates(rates) || ...)) return;
    fail(
        "the filters must have six taps for each of their factor, up and down be 2 and 2, 4 and 2 or 2 and 4, and the "
        "first filter be separable, as the second one must with 2 and 4");
  }

 private:
  template <class Kernel>
  void run(Kernel kernel, size_t bytes, const Strips& strips, int threads) const {
    constexpr int64_t most_blocks = (int64_t{1} << 31) - 1;
    if (strips.blocks() > most_blocks) fail("there are more than 2^31 parts of images");
    if (bytes > most_shared_bytes) gpu::allow_shared_memory(kernel, static_cast<int>(bytes));
    kernel<<<static_cast<unsigned>(strips.blocks()), threads, bytes, stream>>>(call, nonlinearity, strips);
    check_launch(op);
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu

template <class T>
void filtered_lrelu_signed(View<const T, 4> x, View<const float, 2> fu, View<const float, 2> fd, View<const T, 1> b,
                           Oversampling oversampling, Activation activation, SignSizes sizes, bool needs_signs,
                           View<T, 4> y, View<int32_t, 4> signs, Stream stream) {
  const Activate<float> act(activation);
  const Filters filters = read_filters(fu, fd, sizes.height, sizes.width, oversampling);
  const Signs kept = signs_of(filters, sizes, x.size[1], needs_signs ? signs.data : nullptr);
  if (y.numel() == 0) return;
  const WalkCall call{Bytes::of(x),           Bytes::of(b), Bytes::of(y), element_of<T>, Pass(filters.up, fu),
                      Pass(filters.down, fd), {},           {},           kept};
  WalkLaunch<T> launch{"filtered_lrelu_signed", call, Nonlinearity(act), {}, stream};
  if (needs_signs) {
    launch(Rates<false, 2, 2, false, true>{}, Rates<false, 4, 2, false, true>{}, Rates<false, 2, 4, false, true>{},
           Rates<false, 2, 2, true, true>{}, Rates<false, 4, 2, true, true>{});
  } else {
    launch(Rates<false, 2, 2, false>{}, Rates<false, 4, 2, false>{}, Rates<false, 2, 4, false>{},
           Rates<false, 2, 2, true>{}, Rates<false, 4, 2, true>{});
  }
}

template <class T>
void filtered_lrelu_signed_backward(View<const T, 4> grad_y, View<const int32_t, 4> signs, View<const float, 2> fu,
                                    View<const float, 2> fd, Oversampling oversampling, Activation activation,
                                    SignSizes sizes, bool needs_grad_b, View<T, 4> grad_x, View<T, 1> grad_b,
                                    Stream stream) {
  const Activate<float> act(activation);
  const Filters filters = read_filters(fu, fd, sizes.height, sizes.width, oversampling);
  const Signs kept = signs_of(filters, sizes, signs.size[1], signs.data);
  const View<T, 1> sums = needs_grad_b ? grad_b : View<T, 1>{};
  if (grad_x.numel() == 0) {
    if (!sums || sums.size[0] == 0) return;
    sum_channels<<<blocks_for(sums.size[0], 1), GridSum::threads, 0, stream>>>(nullptr, 0, sums);
    return check_launch("filtered_lrelu_signed_backward");
  }
  const WalkCall call{Bytes::of(grad_y),
                      {},
                      Bytes::of(grad_x),
                      element_of<T>,
                      Pass(filters.down.transposed(), fd),
                      Pass(filters.up.transposed(), fu),
                      {},
                      {},
                      kept};
  WalkLaunch<T> launch{"filtered_lrelu_signed_backward", call, Nonlinearity(act), sums, stream};
  launch(Rates<true, 2, 2, false>{}, Rates<true, 2, 4, false>{}, Rates<true, 4, 2, false>{}, Rates<true, 2, 2, true>{},
         Rates<true, 2, 4, true>{});
}
