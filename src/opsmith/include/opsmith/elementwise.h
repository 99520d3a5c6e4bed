// The whole loop of an elementwise operator: out[i] = f(in[i]...), on the CPU and on a GPU.
//
// f is a function object, because a GPU kernel's template argument cannot be a host lambda. It takes and returns the
// types to compute in (compute_t), so it never sees a 16-bit type. Operators of any rank whose tensors are laid out
// alike arrive collapsed to one dimension, with strides of 1: that is the fast path. Any other stride works too.
#pragma once

#include "kernel.h"
#if !defined(__CUDACC__) && !defined(__HIPCC__)
#include "block.h"
#endif

namespace opsmith {

namespace detail {
template <class... T>
constexpr bool all_same_size = true;
template <class First, class... Rest>
constexpr bool all_same_size<First, Rest...> = ((sizeof(First) == sizeof(Rest)) && ...);
}  // namespace detail

#if !defined(__CUDACC__) && !defined(__HIPCC__)

namespace detail {

// The loop over a block. It is instantiated for compute types only, so all element types and strides share it.
template <class F>
struct MapBlock {
  F f;

  template <class Out, class... In>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, Out* __restrict__ out, const In* __restrict__... in) const {
    for (int64_t k = 0; k < n; ++k) out[k] = f(in[k]...);
  }
};

}  // namespace detail

// out[k] = f(in[k]...) for n elements of dense arrays in the type to compute in, as blocks are.
template <class F, class C, class... In>
void elementwise_block(const F& f, int64_t n, C* out, const In*... in) {
  with_best_isa(detail::MapBlock<F>{f}, n, out, in...);
}

// out[i] = f(in[i]...) for every i. `out` overlaps no input.
template <class F, class Out, class... In>
void elementwise(F f, View<Out, 1> out, View<const In, 1>... in) {
  constexpr int64_t grain = 32768;  // some 10 us of the cheapest of functions
  // Threads begin at multiples of the longest vector there is: which elements are left over at the end of a loop over
  // vectors, and may be rounded differently there, does not depend on how many threads there are.
  constexpr int64_t unit = 64;
  const bool direct = (is_direct<Out>(out.stride[0]) && ... && is_direct<In>(in.stride[0]));
  parallel_for(0, (out.size[0] + unit - 1) / unit, grain / unit, [&](int64_t first, int64_t last) {
    const int64_t begin = first * unit, end = last * unit < out.size[0] ? last * unit : out.size[0];
    const int64_t step = direct ? end - begin : block_size;
    for (int64_t i = begin; i < end; i += step) {
      const int64_t n = i + step < end ? step : end - i;
      OutputBlock<Out> result(&out(i), out.stride[0], n);
      elementwise_block(f, n, result.data, InputBlock<In>(&in(i), in.stride[0], n).data...);
      result.store();
    }
  });
}

#else

namespace detail {

constexpr int elementwise_threads = 256;

template <class Out, class F, class... In>
__device__ Out map_one(const F& f, const In&... in) {
  return static_cast<Out>(f(static_cast<compute_t<In>>(in)...));
}

// The vectors come by value: behind a reference they would be loaded one element at a time.
template <class Out, int width, class F, class... In>
__device__ Vector<Out, width> map_vector(const F& f, const Vector<In, width>... in) {
  Vector<Out, width> out;
#pragma unroll
  for (int k = 0; k < width; ++k) out.item[k] = map_one<Out>(f, in.item[k]...);
  return out;
}

// One vector of `width` elements a thread and round of the loop; the last n % width elements go to the first threads.
// The loops are not unrolled: threads enough hide the latency, and few of them take a second round.
template <int width, class F, class Out, class... In>
__global__ void __launch_bounds__(elementwise_threads)
    map_dense(F f, int64_t n, Out* __restrict__ out, const In* __restrict__... in) {
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  const int64_t vectors = n / width;
#pragma unroll 1
  for (int64_t i = first; i < vectors; i += step) {
    reinterpret_cast<Vector<Out, width>*>(out)[i] =
        map_vector<Out>(f, reinterpret_cast<const Vector<In, width>*>(in)[i]...);
  }
#pragma unroll 1
  for (int64_t i = vectors * width + first; i < n; i += step) out[i] = map_one<Out>(f, in[i]...);
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(elementwise_threads) map_strided(F f, View<Out, 1> out, View<const In, 1>... in) {
  const int64_t first = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
#pragma unroll 1
  for (int64_t i = first; i < out.size[0]; i += step) out(i) = map_one<Out>(f, in(i)...);
}

}  // namespace detail

// out[i] = f(in[i]...) for every i, on `stream`. `out` overlaps no input. `op` is the operator's name, for errors.
template <class F, class Out, class... In>
void elementwise(const char* op, Stream stream, F f, View<Out, 1> out, View<const In, 1>... in) {
  static_assert(detail::all_same_size<Out, In...>, "elementwise() takes elements of one size");
  constexpr int threads = detail::elementwise_threads;
  constexpr int width = 16 / sizeof(Out);  // 16 bytes are the most that one instruction loads or stores
  const int64_t n = out.size[0];
  if (n == 0) return;
  const bool vectorised =
      ((out.stride[0] == 1 && is_aligned(out.data, 16)) && ... && (in.stride[0] == 1 && is_aligned(in.data, 16)));
  if (vectorised) {
    detail::map_dense<width>
        <<<blocks_for((n + width - 1) / width, threads), threads, 0, stream>>>(f, n, out.data, in.data...);
  } else {
    detail::map_strided<<<blocks_for(n, threads), threads, 0, stream>>>(f, out, in...);
  }
  check_launch(op);
}

#endif

}  // namespace opsmith
