// The GPU kernels for filters with six taps for each of their factor: a thread walks down columns of u.
//
// Along y both filters stay in a thread's registers: it has the last six rows of samples for its four columns, which
// are filtered along x as they come, makes four rows of u of them, and adds these to the sums of six rows of outputs,
// so u itself is nowhere. Along x the filters reach into other threads' columns, through shared memory: samples in
// front, and behind the rows that are filtered along y, of which each thread makes the outputs that begin in its
// columns. A turn of twelve rows of u has two barriers.
//
// The backward is the same with the transposed filters: y's gradient is upsampled, and between the filters there is the
// slope at u, of which the forward has kept two bits a number (signs.cuh).
//
// A full filter in place of the one of y's size takes u's own rows out of shared memory, or leaves its numbers there.
#pragma once

#include "walker.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

template <class R, bool later_y>
__global__ void __launch_bounds__(R::threads, R::blocks) walk(WalkCall call, Nonlinearity nonlinearity, Strips strips) {
  using W = Walker<R, later_y>;
  extern __shared__ __align__(16) unsigned char memory[];
  const StripPlace place(strips, call.items);
  const int tile = static_cast<int>(place.at.tile);
  const Filtering &up = call.up.filtering, &down = call.down.filtering;
  const WalkStart y = WalkStart::of(R{}, up.y, down.y, tile / strips.across * strips.height);
  const WalkStart x = WalkStart::of(R{}, up.x, down.x, tile % strips.across * strips.width);
  W walker(call, place, strips, y, x, *reinterpret_cast<typename W::Memory*>(memory));
  for (int n = 0; n < strips.turns; ++n) {
    walker.walk(n, nonlinearity);
    if (n + 1 < strips.turns) walker.read();
    walker.store();
  }
  if constexpr (R::is_backward) {
    if (call.partials.data == nullptr) return;
    static_assert(sizeof(typename W::Memory) >= R::threads * sizeof(double));
    double* totals = reinterpret_cast<double*>(memory);
    const int thread = static_cast<int>(threadIdx.x);
    __syncthreads();
    totals[thread] = static_cast<double>(walker.total());
    __syncthreads();
    // The first thread of a strip adds up all of it, in order.
    if (place.unit != 0 || !place.is_kept) return;
    double sum = 0;
    for (int unit = 0; unit < strips.units; ++unit) sum += totals[thread + unit];
    call.partials.data[(place.at.channel * call.items.images + place.at.image) * call.items.tiles + place.at.tile] =
        sum;
  }
}

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
