// What the GPU kernels that walk down rows have in common, of upfirdn2d and of filtered_lrelu: a thread's columns, how
// it reads their samples and the taps, and sums along x. All of it stays in registers.
#pragma once

#include <type_traits>

#include "taps.cuh"

namespace opsmith::ops::filters {
namespace {

// A filter that is known at compile time. Up and Down are the same for both axes, one of them is 1, and Taps is a
// multiple of both. First is where the samples of the first output begin in calls whose loads are vectors.
template <int Up_, int Down_, int Taps_, bool Separable_, int First_>
struct Known {
  static constexpr int Up = Up_, Down = Down_, Taps = Taps_, First = First_;
  static constexpr bool Separable = Separable_;

  static constexpr int inputs = Taps / Up;  // samples along an axis that an output is made of
  static constexpr int weights = Separable ? 2 * Taps : Taps * Taps;
  // Rows that are kept, of samples or of sums: as many steps later a register holds the same again.
  static constexpr int turn = Taps / Up / Down;
};

// How a thread reads and writes its columns. Rows that begin anywhere need loads, or stores, of an element each: loads
// are for the L1 cache to put together, but stores are not, so there a thread has few columns.
enum class Access { vectors, vector_stores, elements };

// The columns of a thread: 16 bytes of the longer of the two rows, or a few outputs, which pay less where their sums
// need many registers.
template <class F, class T, Access access>
struct Columns {
  static constexpr bool vector_loads = access == Access::vectors, vector_stores = access != Access::elements;
  static constexpr int outputs = vector_stores ? 16 / static_cast<int>(sizeof(T)) / F::Down : F::Separable ? 2 : 4;
  static constexpr int own = outputs * F::Down / F::Up;  // samples from this thread's first to the next one's
  static constexpr int needed = own - F::Down + F::inputs + F::Up - 1;
  // Vectors begin at multiples of their length, the samples that are needed where the filter's begin.
  static constexpr int vector = vector_loads ? own : 1;
  static constexpr int offset = vector_loads ? (F::First % own + own) % own : 0;
  static constexpr int loads = (offset + needed + vector - 1) / vector;
  static constexpr int ahead = 2;  // rows that are on their way while one is worked on
};

// A thread's samples, row by row; zeros outside of the image.
template <class C, class T>
class SampleRows {
 public:
  // Elements that are loaded as one stay together in registers until they are converted.
  static constexpr int bytes = C::vector * static_cast<int>(sizeof(T));
  using Word = std::conditional_t<bytes % 4 == 0, uint32_t, uint16_t>;
  using Words = Vector<Word, bytes / static_cast<int>(sizeof(Word))>;
  struct Row {
    Words item[C::loads];
    unsigned inside;  // a bit for each of them that is in the image
  };

  __device__ SampleRows(const T* plane, const View<const T, 4>& x, int row, int column)
      : plane_(plane), at_(row * x.stride[2] + column), stride_(x.stride[2]), row_(row), height_(x.size[2]) {
#pragma unroll
    for (int i = 0; i < C::loads; ++i) {
      const int begin = column + i * C::vector;
      columns_ |= begin >= 0 && begin < x.size[3] ? 1u << i : 0;
    }
  }

  // Begins to read the next row.
  __device__ void read(Row& row) {
    row.inside = row_ >= 0 && row_ < height_ ? columns_ : 0;
#pragma unroll
    for (int i = 0; i < C::loads; ++i) {
      row.item[i] = {};
      if (row.inside >> i & 1) row.item[i] = *reinterpret_cast<const Words*>(plane_ + at_ + i * C::vector);
    }
    at_ += stride_;
    ++row_;
  }

  // Its samples, plus a bias where there are some.
  __device__ static void unpack(const Row& row, float (&samples)[C::needed], float bias = -0.0f) {
    constexpr int in_word = static_cast<int>(sizeof(Word) / sizeof(T));
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
#pragma unroll
    for (int j = 0; j < C::needed; ++j) {
      const int i = (C::offset + j) / C::vector, place = (C::offset + j) % C::vector;
      const Word word = row.item[i].item[place / in_word];
      samples[j] = static_cast<float>(bit_cast<T>(static_cast<Bits>(word >> place % in_word * 16))) +
                   ((row.inside >> i & 1) != 0 ? bias : -0.0f);
    }
  }

 private:
  const T* plane_;
  int64_t at_, stride_;
  int row_, height_;
  unsigned columns_ = 0;  // `inside` of a row that is in the image
  static_assert(C::loads <= 32);
};

template <int n>
__device__ void fill(float (&values)[n], float value) {
#pragma unroll
  for (int i = 0; i < n; ++i) values[i] = value;
}

// Adds to the outputs of a row what some taps, [j * Up + phase], make of its samples.
template <class F, class C>
__device__ void add_along_x(const float* taps, const float (&samples)[C::needed], bool later,
                            float (&sums)[C::outputs]) {
#pragma unroll
  for (int o = 0; o < C::outputs; ++o) {
    const int phase = o % F::Up, first = o / F::Up * F::Down;
#pragma unroll
    for (int j = 0; j < F::inputs; ++j) {
      sums[o] += taps[j * F::Up + phase] * (phase > 0 && later ? samples[first + j + F::Up - 1] : samples[first + j]);
    }
  }
}

template <class C, class T>
__device__ void store_row(T* row, int width, const float (&sums)[C::outputs]) {
  if constexpr (C::vector_stores) {
    Vector<T, C::outputs> rounded;
#pragma unroll
    for (int o = 0; o < C::outputs; ++o) rounded.item[o] = static_cast<T>(sums[o]);
    *reinterpret_cast<Vector<T, C::outputs>*>(row) = rounded;
  } else {
#pragma unroll
    for (int o = 0; o < C::outputs; ++o) {
      if (o < width) row[o] = static_cast<T>(sums[o]);
    }
  }
}

// Reads all taps; a NaN among them makes all of them NaN, and so every sum. Along an axis [i * Up + q] is what phase q
// takes sample i by: of the taps i * Up + q where the samples of the second phase begin one later, else of them in
// reverse order.
template <class F>
__device__ void read_weights(const DeviceTaps& taps, double gain, bool later_y, bool later_x,
                             float (&weights)[F::weights]) {
  const auto tap_of = [](int i, bool later) { return later ? i : i + F::Up - 1 - 2 * (i % F::Up); };
  bool is_nan = false;
#pragma unroll
  for (int i = 0; i < F::weights; ++i) {
    const int row = i / F::Taps, k = i % F::Taps;
    if constexpr (F::Separable) {
      weights[i] = row == 0 ? taps(0, tap_of(k, later_y)) * static_cast<float>(gain) : taps(1, tap_of(k, later_x));
    } else {
      weights[i] = taps.full(tap_of(row, later_y), tap_of(k, later_x)) * static_cast<float>(gain);
    }
    is_nan = is_nan || weights[i] != weights[i];
  }
  if (is_nan) fill(weights, NAN);
}

}  // namespace
}  // namespace opsmith::ops::filters
