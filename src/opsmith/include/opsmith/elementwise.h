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
    // A copy, whose members become registers: read through `this`, one behind a condition is a load that g++ cannot
    // make a vector of, and the loop stays scalar.
    const F own = f;
    for (int64_t k = 0; k < n; ++k) out[k] = own(in[k]...);
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

constexpr int elementwise_threads = 128;

// How many vectors of each input a thread loads before it computes. One is enough of bytes on their way where little is
// done to each; more of them share what a thread has to do once. So a function of one 16-bit input gets four (sigmoid
// of bfloat16 takes 258 us and not 281, 2^28 elements on an H200), of two inputs two, and one of a 64-bit input two
// (1.00 ms and not 1.11). For 32-bit types one is the best. Where there are few bytes they had better be spread over
// threads.
template <class Out, class... In>
constexpr int vectors_at_once = sizeof(Out) <= 2                         ? (sizeof...(In) == 1 ? 4 : 2)
                                : sizeof(Out) == 8 && sizeof...(In) == 1 ? 2
                                                                         : 1;
constexpr int64_t many_bytes = int64_t{1} << 25;
// Single elements are short of bytes anyway.
constexpr int elements_at_once = 4;

// f on one element of each input.
template <class F, class Out>
struct MapOne {
  F f;

  template <class... In>
  __device__ Out operator()(const In&... in) const {
    return static_cast<Out>(f(static_cast<compute_t<In>>(in)...));
  }
};

// f on one vector of each. They come by value: behind a reference they would be loaded one element at a time.
template <class F, class Out, int width>
struct MapVector {
  F f;

  template <class... In>
  __device__ Vector<Out, width> operator()(const Vector<In, width>... in) const {
    compute_t<Out> out[width];
#pragma unroll
    for (int k = 0; k < width; ++k) out[k] = static_cast<compute_t<Out>>(f(static_cast<compute_t<In>>(in.item[k])...));
    return rounded<Out>(out);
  }
};

// What a thread has of one input: elements or vectors of them, which lie `elementwise_threads` apart.
template <class T, int count>
struct Batch {
  T item[count];
};

template <int count, class T>
__device__ Batch<T, count> load_batch(View<const T, 1> in, int64_t first) {
  Batch<T, count> batch;
#pragma unroll
  for (int k = 0; k < count; ++k) batch.item[k] = in(first + k * elementwise_threads);
  return batch;
}

// The inputs come by value again: all of them are loaded before the first is used.
template <int count, class Map, class Out, class... In>
__device__ void map_batch(const Map& map, View<Out, 1> out, int64_t first, const Batch<In, count>... in) {
#pragma unroll
  for (int k = 0; k < count; ++k) out(first + k * elementwise_threads) = map(in.item[k]...);
}

// out[i] = map(in[i]...), of elements or of vectors, `count` of them a thread and round of the loop. The loops are not
// unrolled: threads enough hide the latency, and few of them take a second round.
template <int count, class Map, class Out, class... In>
__device__ void map_all(const Map& map, View<Out, 1> out, View<const In, 1>... in) {
  constexpr int64_t tile = elementwise_threads * count;
#pragma unroll 1
  for (int64_t begin = blockIdx.x * tile; begin < out.size[0]; begin += gridDim.x * tile) {
    const int64_t first = begin + threadIdx.x;
    if (begin + tile <= out.size[0]) {
      map_batch<count>(map, out, first, load_batch<count>(in, first)...);
    } else {
#pragma unroll 1
      for (int64_t i = first; i < out.size[0]; i += elementwise_threads) out(i) = map(in(i)...);
    }
  }
}

// `count` vectors of `width` elements a thread; the last n % width elements go to the first threads.
template <int width, int count, class F, class Out, class... In>
__global__ void __launch_bounds__(elementwise_threads)
    map_dense(F f, int64_t n, Out* __restrict__ out, const In* __restrict__... in) {
  const int64_t vectors = n / width;
  const MapOne<F, Out> map{f};
  map_all<count>(MapVector<F, Out, width>{f},
                 View<Vector<Out, width>, 1>{reinterpret_cast<Vector<Out, width>*>(out), {vectors}, {1}},
                 View<const Vector<In, width>, 1>{reinterpret_cast<const Vector<In, width>*>(in), {vectors}, {1}}...);
  const int64_t i = vectors * width + blockIdx.x * int64_t{elementwise_threads} + threadIdx.x;
  if (i < n) out[i] = map(in[i]...);
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(elementwise_threads) map_strided(F f, View<Out, 1> out, View<const In, 1>... in) {
  map_all<elements_at_once>(MapOne<F, Out>{f}, out, in...);
}

template <int width, int count, class F, class Out, class... In>
void launch_dense(Stream stream, F f, int64_t n, Out* out, const In*... in) {
  constexpr int64_t elements = width * count;
  const unsigned blocks = blocks_for((n + elements - 1) / elements, elementwise_threads);
  map_dense<width, count><<<blocks, elementwise_threads, 0, stream>>>(f, n, out, in...);
}

}  // namespace detail

// out[i] = f(in[i]...) for every i, on `stream`. `out` overlaps no input. `op` is the operator's name, for errors.
template <class F, class Out, class... In>
void elementwise(const char* op, Stream stream, F f, View<Out, 1> out, View<const In, 1>... in) {
  static_assert(detail::all_same_size<Out, In...>, "elementwise() takes elements of one size");
  constexpr int width = 16 / sizeof(Out);  // 16 bytes are the most that one instruction loads or stores
  const int64_t n = out.size[0];
  if (n == 0) return;
  const bool vectorised =
      ((out.stride[0] == 1 && is_aligned(out.data, 16)) && ... && (in.stride[0] == 1 && is_aligned(in.data, 16)));
  if (vectorised && n * static_cast<int64_t>(sizeof(Out)) < detail::many_bytes) {
    detail::launch_dense<width, 1>(stream, f, n, out.data, in.data...);
  } else if (vectorised) {
    detail::launch_dense<width, detail::vectors_at_once<Out, In...>>(stream, f, n, out.data, in.data...);
  } else {
    constexpr int threads = detail::elementwise_threads, elements = detail::elements_at_once;
    detail::map_strided<<<blocks_for((n + elements - 1) / elements, threads), threads, 0, stream>>>(f, out, in...);
  }
  check_launch(op);
}

#endif

}  // namespace opsmith
