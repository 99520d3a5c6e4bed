// The GPU kernels: a block makes a tile of the output, with all that lies between in shared memory.
//
// Forward, the tile of samples that an output tile is made of is upsampled along x, then along y, which gives a tile of
// u; leaky ReLU is applied as it is written, and it is downsampled along x, then along y. Backward, u is made the same
// way, the tile of grad_y is upsampled over it, and what the slope makes of both is downsampled.
//
// Along x a thread works on one row and its neighbours on the next rows, along y on one column.
#pragma once

#include "device.cuh"
#include "passes.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::Axis, filters::Filtering, filters::no_bias;

// Where things are in shared memory, in elements: u at the beginning, then the samples, then what is between two
// passes, then the taps.
struct Layout {
  int samples, work, taps;
};

OPSMITH_HOST_DEVICE constexpr int larger(int a, int b) { return a > b ? a : b; }

// How large a call's tiles are: `up` from samples and, backward, `grad` from others, to what `down` takes.
class TileShape {
 public:
  TileShape(const Filtering& up, const Filtering& grad, const Filtering& down, int height, int width)
      : down_y_(factor(down.y), taps(down.y), height),
        down_x_(factor(down.x), taps(down.x), width),
        up_y_(factor(up.y), taps(up.y), down_y_.sources),
        up_x_(factor(up.x), taps(up.x), down_x_.sources),
        grad_y_(factor(grad.y), taps(grad.y), down_y_.sources),
        grad_x_(factor(grad.x), taps(grad.x), down_x_.sources),
        separable_up_(up.separable),
        separable_grad_(grad.separable),
        separable_down_(down.separable) {
    layout_.samples = down_y_.sources * pitch_of(down_x_.sources);
    layout_.work =
        layout_.samples + larger(up_y_.sources * pitch_of(up_x_.sources), grad_y_.sources * pitch_of(grad_x_.sources));
    const int made = larger(up_y_.sources * pitch_of(up_x_.made()), grad_y_.sources * pitch_of(grad_x_.made()));
    layout_.taps = layout_.work + larger(made, down_y_.sources * pitch_of(down_x_.outputs));
  }

  OPSMITH_HOST_DEVICE DownSizes down_y() const { return down_y_; }
  OPSMITH_HOST_DEVICE DownSizes down_x() const { return down_x_; }
  OPSMITH_HOST_DEVICE UpSizes up_y() const { return up_y_; }
  OPSMITH_HOST_DEVICE UpSizes up_x() const { return up_x_; }
  OPSMITH_HOST_DEVICE UpSizes grad_y() const { return grad_y_; }
  OPSMITH_HOST_DEVICE UpSizes grad_x() const { return grad_x_; }
  OPSMITH_HOST_DEVICE Layout layout() const { return layout_; }
  OPSMITH_HOST_DEVICE bool separable_up() const { return separable_up_; }
  OPSMITH_HOST_DEVICE bool separable_grad() const { return separable_grad_; }
  OPSMITH_HOST_DEVICE bool separable_down() const { return separable_down_; }

 private:
  static int factor(const Axis& axis) { return static_cast<int>(axis.up * axis.down); }  // one of them is 1
  static int taps(const Axis& axis) { return static_cast<int>(axis.taps); }

  DownSizes down_y_, down_x_;
  UpSizes up_y_, up_x_, grad_y_, grad_x_;
  Layout layout_{};
  bool separable_up_, separable_grad_, separable_down_;
};

// How many taps of a pass are kept: of a separable filter those along y, then those along x.
OPSMITH_HOST_DEVICE constexpr int kept_taps(int taps_y, int taps_x, bool separable) {
  return separable ? taps_y + taps_x : taps_y * taps_x;
}

// Keeps a pass' taps, the gain in those along y, and returns what sums begin with: NaN where one of them is.
template <class C>
__device__ C keep_taps(const Pass& pass, C* kept) {
  const int taps_y = static_cast<int>(pass.filtering.y.taps), taps_x = static_cast<int>(pass.filtering.x.taps);
  const bool separable = pass.filtering.separable;
  const C gain = static_cast<C>(pass.filtering.gain);
  bool is_nan = false;
  for (int k = threadIdx.x; k < kept_taps(taps_y, taps_x, separable); k += threads) {
    C tap;
    if (separable) {
      tap = k < taps_y ? static_cast<C>(pass.taps(0, k)) * gain : static_cast<C>(pass.taps(1, k - taps_y));
    } else {
      tap = static_cast<C>(pass.taps.full(k / taps_x, k % taps_x)) * gain;
    }
    kept[k] = tap;
    is_nan = is_nan || tap != tap;
  }
  return __syncthreads_or(is_nan) ? static_cast<C>(NAN) : C(0);
}

// The first number that a pass makes for a tile, as a sample and the place in its group.
struct Start {
  int sample, place;

  __device__ Start(int first, int64_t pad, int factor) : sample(0), place(first - static_cast<int>(pad)) {
    sample = place >= 0 ? place / factor : -((factor - 1 - place) / factor);
    place -= sample * factor;
  }
};

// Reads a tile of samples from (row, column) on, plus a bias; zeros outside of the image.
template <class T, class C>
__device__ void load_samples(const View<const T, 4>& x, const Items::Place& place, int row, int column, int rows,
                             int columns, C bias, C* samples) {
  const T* plane = x.data + place.image * x.stride[0] + place.channel * x.stride[1];
  const int height = static_cast<int>(x.size[2]), width = static_cast<int>(x.size[3]), pitch = pitch_of(columns);
  // Several loads on their way at once: nothing else is to be done meanwhile.
#pragma unroll 4
  for (int i = threadIdx.x; i < rows * columns; i += threads) {
    const int r = i / columns, c = i % columns, y = row + r, z = column + c;
    C value = 0;
    if (y >= 0 && y < height && z >= 0 && z < width) {
      value = static_cast<C>(plane[y * x.stride[2] + z * x.stride[3]]) + bias;
    }
    samples[r * pitch + c] = value;
  }
}

// finish(row, column, number) for each number of a tile that a filter makes from samples. Numbers are asked for once.
template <class C, class Finish>
__device__ void upsample(const UpSizes& y, const UpSizes& x, const Start& from_y, const Start& from_x, bool separable,
                         const C* kept, C start, const C* samples, C* work, const Finish& finish) {
  const int pitch = pitch_of(x.sources), between = pitch_of(x.made());
  if (separable) {
    {
      const UpFilter<C> filter(kept + y.taps, x);
      for (int i = threadIdx.x; i < y.sources * x.groups; i += threads) {
        const int row = i % y.sources, group = i / y.sources;
        filter(
            C(0), [&](int j) { return samples[row * pitch + group + j]; },
            [&](int n, C sum) { work[row * between + group * x.factor + n] = sum; });
      }
    }
    __syncthreads();
    const UpFilter<C> filter(kept, y);
    for (int i = threadIdx.x; i < x.targets * y.groups; i += threads) {
      const int column = i % x.targets, group = i / x.targets;
      filter(
          start, [&](int j) { return work[(group + j) * between + column + from_x.place]; },
          [&](int n, C sum) {
            const int row = group * y.factor + n - from_y.place;
            if (row >= 0 && row < y.targets) finish(row, column, sum);
          });
    }
  } else {
    for (int i = threadIdx.x; i < y.targets * x.targets; i += threads) {
      const int row = i / x.targets, column = i % x.targets;
      const int place_y = (row + from_y.place) % y.factor, place_x = (column + from_x.place) % x.factor;
      C sum = start;
      int r = (row + from_y.place) / y.factor + (place_y > 0 ? 1 : 0);
      for (int ky = place_y > 0 ? y.factor - place_y : 0; ky < y.taps; ky += y.factor, ++r) {
        int c = (column + from_x.place) / x.factor + (place_x > 0 ? 1 : 0);
        for (int kx = place_x > 0 ? x.factor - place_x : 0; kx < x.taps; kx += x.factor, ++c) {
          sum += kept[ky * x.taps + kx] * samples[r * pitch + c];
        }
      }
      finish(row, column, sum);
    }
  }
}

// finish(row, column, output) for each output of a tile.
template <class C, class Finish>
__device__ void downsample(const DownSizes& y, const DownSizes& x, bool separable, const C* kept, C start, const C* u,
                           C* work, const Finish& finish) {
  const int pitch = pitch_of(x.sources), between = pitch_of(x.outputs);
  if (separable) {
    {
      const DownFilter<C> filter(kept + y.taps, x);
      for (int i = threadIdx.x; i < y.sources * x.outputs; i += threads) {
        const int row = i % y.sources, output = i / y.sources;
        filter(
            C(0), [&](int j) { return u[row * pitch + output * x.factor + j]; },
            [&](int n, C sum) { work[row * between + output + n] = sum; });
      }
    }
    __syncthreads();
    const DownFilter<C> filter(kept, y);
    for (int i = threadIdx.x; i < x.outputs * y.outputs; i += threads) {
      const int column = i % x.outputs, output = i / x.outputs;
      filter(
          start, [&](int j) { return work[(output * y.factor + j) * between + column]; },
          [&](int n, C sum) { finish(output + n, column, sum); });
    }
  } else {
    for (int i = threadIdx.x; i < y.outputs * x.outputs; i += threads) {
      const int row = i / x.outputs, column = i % x.outputs;
      C sum = start;
      for (int ky = 0; ky < y.taps; ++ky) {
        for (int kx = 0; kx < x.taps; ++kx) {
          sum += kept[ky * x.taps + kx] * u[(row * y.factor + ky) * pitch + column * x.factor + kx];
        }
      }
      finish(row, column, sum);
    }
  }
}

template <class T, bool is_backward, class Act>
__global__ void __launch_bounds__(threads, 3) make_tiles(TileShape shape, Call<T, is_backward> call, Act act) {
  using C = compute_t<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const DownSizes down_y = shape.down_y(), down_x = shape.down_x();
  const UpSizes up_y = shape.up_y(), up_x = shape.up_x(), grad_y = shape.grad_y(), grad_x = shape.grad_x();
  const Layout layout = shape.layout();
  C* u = reinterpret_cast<C*>(memory);
  C *samples = u + layout.samples, *work = u + layout.work, *up_taps = u + layout.taps;
  C* down_taps = up_taps + kept_taps(up_y.taps, up_x.taps, shape.separable_up());
  C* grad_taps = down_taps + kept_taps(down_y.taps, down_x.taps, shape.separable_down());
  const C up_start = keep_taps(call.up, up_taps), down_start = keep_taps(call.down, down_taps);
  const C grad_start = is_backward ? keep_taps(call.grad, grad_taps) : C(0);
  const int pitch = pitch_of(down_x.sources);

  for (int64_t item = blockIdx.x; item < call.items.count(); item += gridDim.x) {
    const Items::Place place = call.items[item];
    const int out_y = static_cast<int>(place.tile / call.tiles_x) * down_y.outputs;
    const int out_x = static_cast<int>(place.tile % call.tiles_x) * down_x.outputs;
    const int u_y = out_y * down_y.factor - static_cast<int>(call.down.filtering.y.pad);
    const int u_x = out_x * down_x.factor - static_cast<int>(call.down.filtering.x.pad);
    {
      const Start from_y(u_y, call.up.filtering.y.pad, up_y.factor), from_x(u_x, call.up.filtering.x.pad, up_x.factor);
      load_samples(call.x, place, from_y.sample, from_x.sample, up_y.sources, up_x.sources,
                   bias_of(call.b, place.channel), samples);
      __syncthreads();
      upsample(up_y, up_x, from_y, from_x, shape.separable_up(), up_taps, up_start, samples, work,
               [&](int row, int column, C value) {
                 if constexpr (!is_backward) value = act(value);
                 u[row * pitch + column] = value;
               });
      __syncthreads();
    }
    if constexpr (is_backward) {
      const Start from_y(u_y, call.grad.filtering.y.pad, grad_y.factor),
          from_x(u_x, call.grad.filtering.x.pad, grad_x.factor);
      load_samples(call.grad_y, place, from_y.sample, from_x.sample, grad_y.sources, grad_x.sources, no_bias<C>,
                   samples);
      __syncthreads();
      // Beyond its edges there is no u, and no gradient of it, whatever the filter makes there.
      const unsigned height = static_cast<unsigned>(call.grad.filtering.y.out);
      const unsigned width = static_cast<unsigned>(call.grad.filtering.x.out);
      upsample(grad_y, grad_x, from_y, from_x, shape.separable_grad(), grad_taps, grad_start, samples, work,
               [&](int row, int column, C value) {
                 const bool inside =
                     static_cast<unsigned>(u_y + row) < height && static_cast<unsigned>(u_x + column) < width;
                 C& number = u[row * pitch + column];
                 number = inside ? act(value, number) : C(0);
               });
      __syncthreads();
    }
    T* plane = call.out.data + place.image * call.out.stride[0] + place.channel * call.out.stride[1];
    C total = 0;
    downsample(down_y, down_x, shape.separable_down(), down_taps, down_start, u, work,
               [&](int row, int column, C value) {
                 const int y = out_y + row, x = out_x + column;
                 if (y < static_cast<int>(call.out.size[2]) && x < static_cast<int>(call.out.size[3])) {
                   plane[y * call.out.stride[2] + x * call.out.stride[3]] = static_cast<T>(value);
                   total += value;
                 }
               });
    if constexpr (is_backward) call.partials.leave(total, reinterpret_cast<double*>(memory), call.items, place);
    __syncthreads();  // the next item's samples go where these sums were
  }
}

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
