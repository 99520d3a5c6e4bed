// lowpass on a GPU: a warp takes a row, 32 steps at a time.
//
// With b[n] the input of step n, the recurrence y[n] = a * y[n-1] + b[n] over 32 steps is a scan: after the round with
// distance d, lane n holds the part of y[n] that comes from its last 2 * d inputs (Blelloch, "Prefix sums and their
// applications", 1990). What came before the 32 steps is y[n] += a^(n+1) * y[-1].
#include <opsmith/kernel.h>

using namespace opsmith;

namespace {

constexpr int lanes = 32;
constexpr int rows_per_block = 4;

// The value that the lane `distance` below holds. On AMD's GPUs 32 lanes may be half a wavefront.
template <class C>
__device__ C from_below(C value, int distance) {
#if defined(__HIPCC__)
  return __shfl_up(value, distance, lanes);
#else
  return __shfl_up_sync(0xffffffffu, value, distance, lanes);
#endif
}

template <class C>
__device__ C from_last(C value) {
#if defined(__HIPCC__)
  return __shfl(value, lanes - 1, lanes);
#else
  return __shfl_sync(0xffffffffu, value, lanes - 1, lanes);
#endif
}

// y[n] for this lane's n, from its b[n] and from the y before the first lane's.
template <class C>
__device__ C scan(C b, C a, C before, int lane) {
  C power = a;  // a^distance, and at the end a^lanes
  C reach = a;  // a^(lane + 1)
  for (int distance = 1; distance < lanes; distance *= 2) {
    const C below = from_below(b, distance);
    if (lane >= distance) b += power * below;
    if (lane & distance) reach *= power;
    power *= power;
  }
  return b + reach * before;
}

template <class T>
__global__ void __launch_bounds__(lanes* rows_per_block)
    forward(View<const T, 2> x, View<const T, 1> decay, View<T, 2> y) {
  using C = compute_t<T>;
  const int lane = threadIdx.x;
  const int64_t steps = x.size[1];
  for (int64_t row = blockIdx.x * int64_t{rows_per_block} + threadIdx.y; row < x.size[0];
       row += int64_t{gridDim.x} * rows_per_block) {
    const C a = decay(row);
    C before = 0;
    for (int64_t first = 0; first < steps; first += lanes) {
      const int64_t n = first + lane;
      // The first step takes its input whole. Beyond the end 0 is as good as anything: nothing comes after it.
      const C b = n >= steps ? C(0) : n == 0 ? C(x(row, 0)) : (C(1) - a) * C(x(row, n));
      const C state = scan(b, a, before, lane);
      if (n < steps) y(row, n) = T(state);
      before = from_last(state);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(lanes* rows_per_block)
    backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> decay, View<const T, 2> y, View<T, 2> grad_x,
             View<T, 1> grad_decay) {
  using C = compute_t<T>;
  const int lane = threadIdx.x;
  const int64_t steps = x.size[1];
  for (int64_t row = blockIdx.x * int64_t{rows_per_block} + threadIdx.y; row < x.size[0];
       row += int64_t{gridDim.x} * rows_per_block) {
    const C a = decay(row);
    C before = 0, sum = 0;
    for (int64_t first = 0; first < steps; first += lanes) {
      const int64_t n = steps - 1 - first - lane;  // backwards in time
      const C carry = scan(n >= 0 ? C(grad_y(row, n)) : C(0), a, before, lane);
      if (n >= 0) grad_x(row, n) = T(n > 0 ? (C(1) - a) * carry : carry);
      if (n > 0) sum += carry * (C(y(row, n - 1)) - C(x(row, n)));
      before = from_last(carry);
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2) sum += from_below(sum, distance);  // for lane 31
    if (lane == lanes - 1) grad_decay(row) = T(sum);
  }
}

}  // namespace

template <class T>
void lowpass(View<const T, 2> x, View<const T, 1> decay, View<T, 2> y, Stream stream) {
  if (x.numel() == 0) return;
  const dim3 threads(lanes, rows_per_block);
  forward<<<blocks_for(x.size[0], rows_per_block), threads, 0, stream>>>(x, decay, y);
  check_launch("lowpass");
}

template <class T>
void lowpass_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> decay, View<const T, 2> y,
                      View<T, 2> grad_x, View<T, 1> grad_decay, Stream stream) {
  if (x.size[0] == 0) return;  // rows without steps still get their grad_decay of 0
  const dim3 threads(lanes, rows_per_block);
  backward<<<blocks_for(x.size[0], rows_per_block), threads, 0, stream>>>(grad_y, x, decay, y, grad_x, grad_decay);
  check_launch("lowpass_backward");
}
