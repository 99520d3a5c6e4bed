// The GPU kernels for the filters that networks use: both axes in one kernel, through tiles in shared memory.
#pragma once

#include "taps.h"

namespace {

using namespace opsmith;

// A block makes a tile of one image from a tile of samples in shared memory. Its threads stand 64 along x and 4 along
// y; each makes `Up` adjacent outputs of a row, which are the phases, and a band of such rows, with the samples it
// needs in registers from row to row. Neighbouring threads read neighbouring samples, so no bank is asked twice, and
// write neighbouring outputs.
//
// Up and Down are the same for both axes and one of them is 1; Taps is a multiple of Up.
template <int Up_, int Down_, int Taps_, bool Separable_>
struct Tile {
  static constexpr int Up = Up_, Down = Down_, Taps = Taps_;
  static constexpr bool Separable = Separable_;

  static constexpr int inputs = Taps / Up;  // samples along an axis that an output is made of
  static constexpr int threads_x = 64, threads_y = 4, threads = threads_x * threads_y;
  static constexpr int band = Down == 1 ? 8 : 4;  // steps of a thread along y, each of `Up` rows of outputs
  static constexpr int steps = threads_y * band;
  static constexpr int out_width = threads_x * Up, out_height = steps * Up;

  // Samples of a tile. Along x it begins at a multiple of a vector, so there may be a vector less one before.
  static constexpr int weights = Separable ? 2 * Taps : Taps * Taps;
  static constexpr int rows = (steps - 1) * Down + inputs;
  static constexpr int needed = (threads_x - 1) * Down + inputs + Up - 1;
  template <class T>
  static constexpr int vector = 16 / sizeof(T);
  template <class T>
  static constexpr int columns = (needed + 2 * vector<T> - 2) / vector<T> * vector<T>;
};

// Where a column of samples is. With Down = 2 even and odd ones are apart, so that neighbouring threads, whose samples
// are two columns apart, read neighbouring words.
template <int Down, int columns>
__device__ int place_of(int column) {
  return Down == 1 ? column : (column & 1) * (columns / 2) + column / 2;
}

// How the tiles of a call lie; all sizes are below 2^30. The host works it out, because a division of 64 bits takes as
// long as some outputs.
struct Tiling {
  int64_t planes;               // images times channels: the grid's y, and its z where that is not enough
  int across;                   // tiles of a plane along x; the grid's x counts the tiles of a plane
  int shift_y;                  // tiles along y begin this much before a multiple of their height, see `later`
  int first_row, first_column;  // the first sample of the first tile
  // Where the first phase along x takes the first tap, the samples of the second begin one later. Else it takes the
  // second tap, and both have the same samples. Along y tiles begin where the latter is so.
  bool later;
  bool vector_loads;   // rows of x begin at multiples of 16 bytes
  bool vector_stores;  // the outputs of a thread lie at a multiple of their size
};

// Reads a tile of samples, from (row, column) on; zeros outside of the image.
template <class S, bool vectors, class T>
__device__ void load_tile(const T* image, int64_t row_stride, int height, int width, int row, int column,
                          float* samples) {
  constexpr int vector = vectors ? S::template vector<T> : 1, columns = S::template columns<T>;
  constexpr int across = columns / vector, count = S::rows * across;
  const int thread = threadIdx.y * S::threads_x + threadIdx.x;
#pragma unroll 4
  for (int index = thread; index < count; index += S::threads) {
    const int r = index / across, c = index % across * vector;
    const int y = row + r, x = column + c;
    Vector<T, vector> values{};
    if (y >= 0 && y < height && x >= 0 && x < width) {
      values = *reinterpret_cast<const Vector<T, vector>*>(image + y * row_stride + x);
    }
    if constexpr (vectors) {
      // Down rows of places, each written by one store.
      constexpr int run = vector / S::Down;
#pragma unroll
      for (int part = 0; part < S::Down; ++part) {
        Vector<float, run> wide;
#pragma unroll
        for (int k = 0; k < run; ++k) wide.item[k] = static_cast<float>(values.item[k * S::Down + part]);
        *reinterpret_cast<Vector<float, run>*>(samples + r * columns + place_of<S::Down, columns>(c + part)) = wide;
      }
    } else {
      samples[r * columns + place_of<S::Down, columns>(c)] = static_cast<float>(values.item[0]);
    }
  }
}

// The outputs of one row that a thread makes.
template <int Up, class T>
__device__ void store(T* row, int column, int width, bool vectors, const float (&values)[Up]) {
  if (Up > 1 && vectors) {
    if (column >= width) return;  // the width is a multiple of Up
    Vector<T, Up> rounded;
#pragma unroll
    for (int p = 0; p < Up; ++p) rounded.item[p] = static_cast<T>(values[p]);
    *reinterpret_cast<Vector<T, Up>*>(row + column) = rounded;
  } else {
#pragma unroll
    for (int p = 0; p < Up; ++p) {
      if (column + p < width) row[column + p] = static_cast<T>(values[p]);
    }
  }
}

template <class S, class T>
__global__ void __launch_bounds__(S::threads)
    resample(View<const T, 4> x, Taps taps, Filtering filtering, View<T, 4> out, Tiling tiling) {
  constexpr int columns = S::template columns<T>, vector = S::template vector<T>;
  alignas(32) __shared__ float samples[S::rows * columns];
  alignas(16) __shared__ float kept[S::weights];
  alignas(8) __shared__ float filtered[S::Separable ? S::rows * S::out_width : 1];
  const int height = static_cast<int>(filtering.y.out), width = static_cast<int>(filtering.x.out);
  const float gain = static_cast<float>(filtering.gain);
  const bool later = S::Up > 1 && tiling.later;

  const int64_t plane = static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y;
  if (plane >= tiling.planes) return;
  const unsigned channels = static_cast<unsigned>(out.size[1]);
  const int64_t image = static_cast<unsigned>(plane) / channels, channel = static_cast<unsigned>(plane) % channels;
  const T* from = x.data + image * x.stride[0] + channel * x.stride[1];
  T* to = out.data + image * out.stride[0] + channel * out.stride[1];

  const int tile_y = static_cast<int>(blockIdx.x) / tiling.across,
            tile_x = static_cast<int>(blockIdx.x) % tiling.across;
  const int out_y = tile_y * S::out_height - tiling.shift_y, out_x = tile_x * S::out_width;
  const int row = tiling.first_row + tile_y * S::steps * S::Down;
  const int first = tiling.first_column + tile_x * S::threads_x * S::Down;
  const int column = tiling.vector_loads ? first & ~(vector - 1) : first;

  // Each thread reads a tap, into the place where it is looked for: [j * Up + p] is what phase p takes sample j by.
  bool is_nan = false;
  if (const int thread = threadIdx.y * S::threads_x + threadIdx.x; thread < S::weights) {
    const auto tap_of = [](int weight, bool later) { return S::Up == 1 || later ? weight : weight ^ 1; };
    const int i = thread / S::Taps, k = thread % S::Taps;
    float tap;
    if constexpr (S::Separable) {
      tap = i == 0 ? taps(0, tap_of(k, false)) * gain : taps(1, tap_of(k, later));
    } else {
      tap = taps.full(tap_of(i, false), tap_of(k, later)) * gain;
    }
    kept[thread] = tap;
    is_nan = tap != tap;
  }
  if (tiling.vector_loads) {
    load_tile<S, true>(from, x.stride[2], static_cast<int>(x.size[2]), static_cast<int>(x.size[3]), row, column,
                       samples);
  } else {
    load_tile<S, false>(from, x.stride[2], static_cast<int>(x.size[2]), static_cast<int>(x.size[3]), row, column,
                        samples);
  }
  // What sums begin with: a NaN among the taps makes everything NaN.
  const float start = __syncthreads_or(is_nan) ? NAN : 0.0f;
  float weights[S::weights];
#pragma unroll
  for (int k = 0; k < S::weights; ++k) weights[k] = kept[k];

  // Sample j of a thread's window is in one of two rows of places, by whether j is even.
  const int unit = threadIdx.x;
  const int even = place_of<S::Down, columns>(first - column) + unit;
  const int odd = place_of<S::Down, columns>(first - column + 1) + unit;
  const auto place = [&](int j) { return S::Down == 1 ? even + j : (j % 2 == 0 ? even : odd) + j / 2; };

  if constexpr (S::Separable) {
#pragma unroll 2
    for (int r = threadIdx.y; r < S::rows; r += S::threads_y) {
      float window[S::inputs + S::Up - 1];
#pragma unroll
      for (int j = 0; j < S::inputs + S::Up - 1; ++j) window[j] = samples[r * columns + place(j)];
      Vector<float, S::Up> made;
#pragma unroll
      for (int p = 0; p < S::Up; ++p) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < S::inputs; ++j) {
          sum += weights[S::Taps + j * S::Up + p] * (p > 0 && later ? window[j + (S::Up > 1)] : window[j]);
        }
        made.item[p] = sum;
      }
      *reinterpret_cast<Vector<float, S::Up>*>(filtered + r * S::out_width + unit * S::Up) = made;
    }
    __syncthreads();
  }

  // The rows of this thread's band. `window` holds the samples of one step; the next shares all but Down rows with
  // it.
  constexpr int across = S::Separable ? S::Up : S::inputs + S::Up - 1;
  float window[S::inputs][across];
  const auto read_row = [&](int r, float (&into)[across]) {
    if constexpr (S::Separable) {
      const auto read = *reinterpret_cast<const Vector<float, S::Up>*>(filtered + r * S::out_width + unit * S::Up);
#pragma unroll
      for (int j = 0; j < across; ++j) into[j] = read.item[j];
    } else {
#pragma unroll
      for (int j = 0; j < across; ++j) into[j] = samples[r * columns + place(j)];
    }
  };
  const int first_row = threadIdx.y * S::band * S::Down;
#pragma unroll
  for (int i = 0; i < S::inputs - S::Down; ++i) read_row(first_row + i, window[i + S::Down]);
#pragma unroll
  for (int step = 0; step < S::band; ++step) {
#pragma unroll
    for (int i = 0; i < S::inputs - S::Down; ++i) {
#pragma unroll
      for (int j = 0; j < across; ++j) window[i][j] = window[i + S::Down][j];
    }
#pragma unroll
    for (int i = S::inputs - S::Down; i < S::inputs; ++i) read_row(first_row + step * S::Down + i, window[i]);
#pragma unroll
    for (int q = 0; q < S::Up; ++q) {
      const int y = out_y + (threadIdx.y * S::band + step) * S::Up + q;
      float sums[S::Up];
#pragma unroll
      for (int p = 0; p < S::Up; ++p) {
        float sum = start;
#pragma unroll
        for (int i = 0; i < S::inputs; ++i) {
          if constexpr (S::Separable) {
            sum += weights[i * S::Up + q] * window[i][p];
          } else {
#pragma unroll
            for (int j = 0; j < S::inputs; ++j) {
              sum += weights[(i * S::Up + q) * S::Taps + j * S::Up + p] *
                     (p > 0 && later ? window[i][j + (S::Up > 1)] : window[i][j]);
            }
          }
        }
        sums[p] = sum;
      }
      if (y >= 0 && y < height) {
        store<S::Up>(to + y * out.stride[2], out_x + unit * S::Up, width, tiling.vector_stores, sums);
      }
    }
  }
}

template <class S, class T>
void launch_tiles(const View<const T, 4>& x, const Taps& taps, const Filtering& filtering, const View<T, 4>& out,
                  Stream stream) {
  Tiling tiling{};
  tiling.later = filtering.x.first_tap(0) == 0;
  tiling.shift_y = S::Up > 1 && filtering.y.first_tap(0) == 0 ? 1 : 0;
  tiling.first_row = static_cast<int>(filtering.y.first_input(-tiling.shift_y));
  tiling.first_column = static_cast<int>(filtering.x.first_input(0));
  tiling.across = static_cast<int>((out.size[3] + S::out_width - 1) / S::out_width);
  const int64_t down = (out.size[2] + tiling.shift_y + S::out_height - 1) / S::out_height;
  tiling.planes = out.size[0] * out.size[1];
  const auto rows_at_multiples = [](const auto& view, int64_t n) {
    return view.stride[0] % n == 0 && view.stride[1] % n == 0 && view.stride[2] % n == 0;
  };
  constexpr int vector = S::template vector<T>;
  tiling.vector_loads = is_aligned(x.data, 16) && x.size[3] % vector == 0 && rows_at_multiples(x, vector);
  tiling.vector_stores =
      is_aligned(out.data, S::Up * sizeof(T)) && out.size[3] % S::Up == 0 && rows_at_multiples(out, S::Up);
  constexpr int64_t most_y = 65535;
  const int64_t across_y = tiling.planes < most_y ? tiling.planes : most_y;
  const dim3 grid(static_cast<unsigned>(tiling.across * down), static_cast<unsigned>(across_y),
                  static_cast<unsigned>((tiling.planes + most_y - 1) / most_y));
  resample<S><<<grid, dim3(S::threads_x, S::threads_y), 0, stream>>>(x, taps, filtering, out, tiling);
}

}  // namespace
