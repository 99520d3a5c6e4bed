// The loop of an elementwise operator with two results, (first[i], second[i]) = f(in[i]...), on the CPU and on a GPU:
// for two gradients, as a rule, which read the same and compute most of the same.
//
// f is as for elementwise.h, and returns Two.
#pragma once

#include "elementwise.h"

namespace opsmith {

template <class C>
struct Two {
  C first;
  C second;
};

#if !defined(__CUDACC__) && !defined(__HIPCC__)

namespace detail {

template <class F>
struct MapBlockToTwo {
  F f;

  template <class C, class... In>
  OPSMITH_HOST_DEVICE void operator()(int64_t n, C* __restrict__ first, C* __restrict__ second,
                                      const In* __restrict__... in) const {
    const F own = f;  // as in MapBlock
    for (int64_t k = 0; k < n; ++k) {
      const Two<C> result = own(in[k]...);
      first[k] = result.first;
      second[k] = result.second;
    }
  }
};

}  // namespace detail

// (first[i], second[i]) = f(in[i]...) for every i. The outputs overlap no input.
template <class F, class Out, class... In>
void elementwise(F f, View<Out, 1> first, View<Out, 1> second, View<const In, 1>... in) {
  constexpr int64_t grain = 32;  // blocks that take some 10 us
  const int64_t n = first.size[0];
  parallel_for(0, (n + block_size - 1) / block_size, grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t i = block * block_size, count = n - i < block_size ? n - i : block_size;
      OutputBlock<Out> one(&first(i), first.stride[0], count), other(&second(i), second.stride[0], count);
      with_best_isa(detail::MapBlockToTwo<F>{f}, count, one.data, other.data,
                    InputBlock<In>(&in(i), in.stride[0], count).data...);
      one.store();
      other.store();
    }
  });
}

#else

namespace detail {

// f on one vector of each input. They come by value: all of them are loaded before the first is used.
template <int width, class Out, class F, class... In>
__device__ void map_to_two(const F& f, Vector<Out, width>& first, Vector<Out, width>& second,
                           const Vector<In, width>... in) {
  compute_t<Out> one[width], other[width];
#pragma unroll
  for (int k = 0; k < width; ++k) {
    const Two<compute_t<Out>> result = f(static_cast<compute_t<In>>(in.item[k])...);
    one[k] = result.first;
    other[k] = result.second;
  }
  first = rounded<Out>(one);
  second = rounded<Out>(other);
}

// Vectors of `width` elements; the last n % width elements go to the first threads.
template <int width, class F, class Out, class... In>
__global__ void __launch_bounds__(elementwise_threads)
    map_dense_to_two(F f, int64_t n, Out* __restrict__ first, Out* __restrict__ second, const In* __restrict__... in) {
  const int64_t begin = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
  const int64_t vectors = n / width;
#pragma unroll 1
  for (int64_t i = begin; i < vectors; i += step) {
    map_to_two<width, Out>(f, reinterpret_cast<Vector<Out, width>*>(first)[i],
                           reinterpret_cast<Vector<Out, width>*>(second)[i],
                           reinterpret_cast<const Vector<In, width>*>(in)[i]...);
  }
#pragma unroll 1
  for (int64_t i = vectors * width + begin; i < n; i += step) {
    map_to_two<1, Out>(f, reinterpret_cast<Vector<Out, 1>*>(first)[i], reinterpret_cast<Vector<Out, 1>*>(second)[i],
                       Vector<In, 1>{in[i]}...);
  }
}

template <class F, class Out, class... In>
__global__ void __launch_bounds__(elementwise_threads)
    map_strided_to_two(F f, View<Out, 1> first, View<Out, 1> second, View<const In, 1>... in) {
  const int64_t begin = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t step = gridDim.x * static_cast<int64_t>(blockDim.x);
#pragma unroll 1
  for (int64_t i = begin; i < first.size[0]; i += step) {
    map_to_two<1, Out>(f, reinterpret_cast<Vector<Out, 1>&>(first(i)), reinterpret_cast<Vector<Out, 1>&>(second(i)),
                       Vector<In, 1>{in(i)}...);
  }
}

}  // namespace detail

// (first[i], second[i]) = f(in[i]...) for every i, on `stream`. The outputs overlap no input. `op` is the operator's
// name, for errors.
template <class F, class Out, class... In>
void elementwise(const char* op, Stream stream, F f, View<Out, 1> first, View<Out, 1> second, View<const In, 1>... in) {
  static_assert(detail::all_same_size<Out, In...>, "elementwise() takes elements of one size");
  constexpr int width = 16 / sizeof(Out), threads = detail::elementwise_threads;
  const int64_t n = first.size[0];
  if (n == 0) return;
  const auto is_dense = [](const auto& view) { return view.stride[0] == 1 && is_aligned(view.data, 16); };
  if (is_dense(first) && is_dense(second) && (... && is_dense(in))) {
    const unsigned blocks = blocks_for((n + width - 1) / width, threads);
    detail::map_dense_to_two<width><<<blocks, threads, 0, stream>>>(f, n, first.data, second.data, in.data...);
  } else {
    detail::map_strided_to_two<<<blocks_for(n, threads), threads, 0, stream>>>(f, first, second, in...);
  }
  check_launch(op);
}

#endif

}  // namespace opsmith
