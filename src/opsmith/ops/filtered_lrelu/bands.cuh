// The GPU kernels for 12 separable taps each, up 2 and down 2: a thread walks down rows, and u is never kept.
//
// A thread makes some columns of u, two rows at a time, from the last six rows of samples, which it has filtered along
// x; and it makes the outputs that begin at these columns, whose sums it keeps until they are complete. What they need
// of the columns behind comes through shared memory, so the last threads of a strip make u for the others alone.
// Backward, grad_y's rows are upsampled in the same way, and what the slope at u makes of both is downsampled.
#pragma once

#include "band_rows.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::Filtering, filters::read_weights;

template <class T, bool is_backward, bool later, class Act>
__global__ void __launch_bounds__(Work<is_backward>::threads, Work<is_backward>::blocks)
    make_bands(Call<T, is_backward> call, Act act, Bands bands) {
  constexpr int turn = DownFilter::turn, wide = Work<is_backward>::wide, quads = wide / 4;
  constexpr int threads = Work<is_backward>::threads;
  using C = OutputColumns<wide>;
  // A pair of rows and the next one: who is ahead by a barrier writes where nobody reads. Each four of a thread's
  // columns are in an array of their own, so that threads side by side use all banks.
  __shared__ Vector<float, 4> shared[2][UpFilter::Up][quads][threads + C::margin];
  __shared__ double room[is_backward ? threads : 1];
  const int thread = static_cast<int>(threadIdx.x);
  const StripPlace place(bands, call.out.size[1], C::outputs, C::margin);
  const Filtering& down = call.down.filtering;
  NumberRows<T, is_backward, later> numbers(call, place, place.row * DownFilter::Down - static_cast<int>(down.y.pad),
                                            place.column * DownFilter::Down - static_cast<int>(down.x.pad));
  const auto weights = [&](float (&into)[DownFilter::weights]) {
    if constexpr (is_backward) {
      numbers.transposed(into);
    } else {
      read_weights<DownFilter>(call.down.taps, down.gain, true, true, into);
    }
  };
  OutputRows<wide, T> outputs(weights, call.out, place, bands);
  float total = 0;
  for (int step = 0; step < bands.steps + turn - 1; step += turn) {
#pragma unroll
    for (int k = 0; k < turn; ++k) {
      auto& rows = shared[k % 2];
      float own[UpFilter::Up][wide];
#pragma unroll
      for (int phase = 0; phase < UpFilter::Up; ++phase) {
        numbers.make(k, phase, act, own[phase]);
#pragma unroll
        for (int q = 0; q < quads; ++q) {
          const float* quad = own[phase] + 4 * q;
          rows[phase][q][thread] = {quad[0], quad[1], quad[2], quad[3]};
        }
      }
      __syncthreads();
#pragma unroll
      for (int phase = 0; phase < UpFilter::Up; ++phase) {
        float needed[C::needed];
#pragma unroll
        for (int j = 0; j < C::needed; ++j) {
          needed[j] = j < wide ? own[phase][j % wide] : rows[phase][j % wide / 4][thread + j / wide].item[j % 4];
        }
        outputs.add(k, phase, needed);
      }
      total += outputs.finish(step + k, k);
    }
  }
  if constexpr (is_backward) {
    if (call.partials.data == nullptr) return;
    room[thread] = static_cast<double>(total);
    __syncthreads();
    // The first thread of a strip adds up all of it, in order.
    if (thread % bands.units != 0 || !place.is_kept) return;
    double sum = 0;
    for (int unit = 0; unit < bands.units; ++unit) sum += room[thread + unit];
    call.partials.data[(place.channel * call.items.images + place.image) * call.items.tiles + place.tile] = sum;
  }
}

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
