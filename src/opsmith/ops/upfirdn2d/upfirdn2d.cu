// upfirdn2d on a GPU: which kernel serves a call.
#include "bands.cuh"
#include "direct.cuh"

using namespace opsmith;
using namespace opsmith::ops::filters;
using namespace opsmith::ops::upfirdn2d;

namespace opsmith::ops::upfirdn2d {
namespace {

// Whether there is a kernel of bands for a call, which it then launches. double would need twice the registers, so it
// goes the other way, and so does whatever is so large that a coordinate needs 64 bits.
template <class T>
bool try_known(const View<const T, 4>& x, const DeviceTaps& taps, const Filtering& filtering, const View<T, 4>& out,
               Stream stream) {
  if constexpr (sizeof(T) == 8) {
    return false;
  } else {
    const Axis &a = filtering.y, &b = filtering.x;
    constexpr int64_t most = int64_t{1} << 30;
    const bool rows = out.stride[3] == 1 && (x.numel() == 0 || x.stride[3] == 1);
    const bool alike = a.up == b.up && a.down == b.down && a.taps == b.taps;
    const bool small = a.in < most && b.in < most && a.out < most && b.out < most && a.pad < most && b.pad < most &&
                       a.pad > -most && b.pad > -most && out.size[0] * out.size[1] < most;
    if (!rows || !alike || !small) return false;
    const auto is = [&](auto known) {
      using F = decltype(known);
      return a.up == F::Up && a.down == F::Down && a.taps == F::Taps && filtering.separable == F::Separable;
    };
    const auto try_all = [&](auto access, auto... known) {
      return ((is(known) && try_bands<decltype(known), access>(x, taps, filtering, out, stream)) || ...);
    };
    // `First` is what upsample2d, downsample2d, filter2d and their gradients ask for.
    const auto try_each = [&](auto access) {
      return try_all(access, Known<2, 1, 4, false, -1>{}, Known<1, 2, 4, false, -1>{}, Known<1, 1, 4, false, -2>{},
                     Known<2, 1, 12, true, -3>{}, Known<1, 2, 12, true, -5>{});
    };
    using std::integral_constant;
    constexpr integral_constant<Access, Access::vectors> vectors{};
    return try_each(vectors) || try_all(vectors, Known<1, 1, 4, false, -1>{}) ||
           try_each(integral_constant<Access, Access::vector_stores>{}) ||
           try_each(integral_constant<Access, Access::elements>{});
  }
}

template <class T>
void run(const char* op, const View<const T, 4>& x, const View<const float, 2>& f, const Filtering& filtering,
         const View<T, 4>& out, Stream stream) {
  if (out.numel() == 0) return;
  const DeviceTaps taps{f, filtering.reversed};
  if (!try_known(x, taps, filtering, out, stream)) {
    constexpr int width = 16 / sizeof(T);
    const auto pixels_at_multiples = [](const auto& view) {
      return view.stride[1] == 1 && view.stride[0] % width == 0 && view.stride[2] % width == 0 &&
             view.stride[3] % width == 0 && is_aligned(view.data, 16);
    };
    if (out.size[1] % width == 0 && pixels_at_multiples(x) && pixels_at_multiples(out)) {
      launch_direct<width>(x, taps, filtering, out, stream);
    } else {
      launch_direct<1>(x, taps, filtering, out, stream);
    }
  }
  check_launch(op);
}

}  // namespace
}  // namespace opsmith::ops::upfirdn2d

template <class T>
void upfirdn2d_sized(View<const T, 4> x, View<const float, 2> f, Resampling resampling, View<T, 4> out, Stream stream) {
  run("upfirdn2d_sized", x, f, read_arguments(f, resampling), out, stream);
}

template <class T>
void upfirdn2d_transposed(View<const T, 4> grad_out, View<const float, 2> f, Resampling resampling, View<T, 4> grad_x,
                          Stream stream) {
  run("upfirdn2d_transposed", grad_out, f, read_arguments(f, resampling).transposed(), grad_x, stream);
}
