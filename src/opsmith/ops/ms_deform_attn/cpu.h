// Multi-scale deformable attention on the CPU: an image's head at a time, whose pixels are vectors of channels.
//
// Elements that are not what is computed in, or do not lie side by side, are laid out once for all queries. In the
// backward an image's head belongs to one thread, which adds up its queries in their order: results do not depend on
// the number of threads.
#pragma once

#include <opsmith/block.h>

#include <algorithm>
#include <vector>

#include "../_cpu/registers.h"
#include "ms_deform_attn.h"

namespace opsmith::ops::ms_deform_attn {
namespace {

inline std::vector<Level> read_levels(const View<const int64_t, 2>& shapes, const View<const int64_t, 1>& starts) {
  std::vector<Level> levels;
  for (int64_t l = 0; l < shapes.size[0]; ++l) levels.push_back({shapes(l, 0), shapes(l, 1), starts(l)});
  return levels;
}

template <class T>
struct Inputs {
  View<const T, 4> value;      // [N S M D]
  View<const T, 6> locations;  // [N Q M L P 2]
  View<const T, 5> weights;    // [N Q M L P]
  std::vector<Level> levels;

  int64_t images() const { return value.size[0]; }
  int64_t pixels() const { return value.size[1]; }
  int64_t heads() const { return value.size[2]; }
  int64_t channels() const { return value.size[3]; }
  int64_t queries() const { return locations.size[1]; }
  int64_t points() const { return locations.size[4]; }
  size_t taps() const { return levels.size() * static_cast<size_t>(points()); }
};

// The pixels of one head of one image, as dense rows of channels or as they lie.
template <class T>
class Pixels {
  using C = compute_t<T>;

 public:
  static bool are_dense(const View<const T, 4>& value) {
    return std::is_same_v<T, C> && (value.stride[3] == 1 || value.size[3] == 1);
  }

  Pixels(const View<const T, 4>& value, int64_t image, int64_t head) : row_(value.stride[1]) {
    const T* const from = value.data + image * value.stride[0] + head * value.stride[2];
    if constexpr (std::is_same_v<T, C>) base_ = from;
    if (are_dense(value)) return;
    const int64_t channels = value.size[3];
    dense_.resize(static_cast<size_t>(value.size[1] * channels));
    for (int64_t pixel = 0; pixel < value.size[1]; ++pixel) {
      load_block<T>(from + pixel * row_, value.stride[3], channels, dense_.data() + pixel * channels);
    }
    base_ = dense_.data();
    row_ = channels;
  }

  const C* operator[](int64_t pixel) const { return base_ + pixel * row_; }

 private:
  std::vector<C> dense_;
  const C* base_ = nullptr;
  int64_t row_;
};

// One point of a query: the rows of its four pixels, zeros where there is none, and what they weigh.
template <class C>
struct Tap {
  const C* corner[4];
  C* gradient[4];
  C share[4];
  C below, right, attention;
  bool is_inside;
};

// Where the points of each query read.
template <class T>
class Taps {
  using C = compute_t<T>;

 public:
  explicit Taps(const Inputs<T>& inputs)
      : inputs_(inputs), zeros_(static_cast<size_t>(inputs.channels())), list_(inputs.taps()) {}

  const std::vector<Tap<C>>& of(int64_t image, int64_t query, int64_t head, const Pixels<T>& pixels) {
    size_t index = 0;
    for (int64_t l = 0; l < inputs_.locations.size[3]; ++l) {
      for (int64_t p = 0; p < inputs_.points(); ++p) {
        const Sample<C> sample = locate(static_cast<C>(inputs_.locations(image, query, head, l, p, 0)),
                                        static_cast<C>(inputs_.locations(image, query, head, l, p, 1)),
                                        inputs_.levels[static_cast<size_t>(l)], inputs_.pixels());
        Tap<C>& tap = list_[index++];
        for (int k = 0; k < 4; ++k) {
          tap.corner[k] = sample.pixel[k] < 0 ? zeros_.data() : pixels[sample.pixel[k]];
          tap.share[k] = sample.share(k);
          pixel_[k] = sample.pixel[k];
        }
        tap.below = sample.below;
        tap.right = sample.right;
        tap.attention = static_cast<C>(inputs_.weights(image, query, head, l, p));
        tap.is_inside = sample.is_inside;
        if (gradients_ != nullptr) {
          for (int k = 0; k < 4; ++k) {
            tap.gradient[k] = pixel_[k] < 0 ? dropped_.data() : gradients_ + pixel_[k] * inputs_.channels();
          }
        }
      }
    }
    return list_;
  }

  // The dense rows that gradients of pixels are added to from now on; what is not a pixel's is dropped.
  void collect_in(C* gradients) {
    gradients_ = gradients;
    dropped_.resize(static_cast<size_t>(inputs_.channels()));
  }

 private:
  const Inputs<T>& inputs_;
  std::vector<C> zeros_, dropped_;
  std::vector<Tap<C>> list_;
  C* gradients_ = nullptr;
  int64_t pixel_[4];
};

// to[c] = the sum over taps of attention * sample, for some registers of channels.
template <int registers, int bytes, class C>
OPSMITH_HOST_DEVICE void sum_channels(const std::vector<Tap<C>>& taps, int64_t c, C* to) {
  using Lanes = typename cpu::Register<bytes, C>::Lanes;
  Lanes sum[registers] = {};
  for (const Tap<C>& tap : taps) {
    for (int r = 0; r < registers; ++r) {
      Lanes sample = {};
      for (int k = 0; k < 4; ++k) sample += tap.share[k] * reinterpret_cast<const Lanes*>(tap.corner[k] + c)[r];
      sum[r] += tap.attention * sample;
    }
  }
  for (int r = 0; r < registers; ++r) reinterpret_cast<Lanes*>(to + c)[r] = sum[r];
}

struct SumTaps {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const std::vector<Tap<C>>& taps, int64_t channels,
                                      C* to) const {
    constexpr int64_t lanes = bytes / sizeof(C);
    int64_t c = 0;
    for (; c + 2 * lanes <= channels; c += 2 * lanes) sum_channels<2, bytes>(taps, c, to);
    for (; c + lanes <= channels; c += lanes) sum_channels<1, bytes>(taps, c, to);
    for (; c < channels; ++c) sum_channels<1, sizeof(C)>(taps, c, to);
  }
};

template <class T>
struct Forward {
  using C = compute_t<T>;
  static constexpr int64_t block = 32;  // queries that are one piece of work

  Inputs<T> inputs;
  View<T, 3> out;

  void run() const {
    // Pixels that have to be laid out first are so once.
    const bool shares = Pixels<T>::are_dense(inputs.value);
    const int64_t queries = inputs.queries(), blocks = shares ? (queries + block - 1) / block : 1;
    const int64_t heads = inputs.heads();
    parallel_for(0, inputs.images() * heads * blocks, 1, [&](int64_t begin, int64_t end) {
      Taps<T> taps(inputs);
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t head = piece / blocks % heads, image = piece / blocks / heads;
        const int64_t first = piece % blocks * block;
        const int64_t behind = shares ? std::min(queries, first + block) : queries;
        sum_queries(image, head, first, behind, taps);
      }
    });
  }

 private:
  void sum_queries(int64_t image, int64_t head, int64_t first, int64_t behind, Taps<T>& taps) const {
    const int64_t channels = inputs.channels();
    const Pixels<T> pixels(inputs.value, image, head);
    std::vector<C> sums(static_cast<size_t>(channels));
    for (int64_t query = first; query < behind; ++query) {
      with_vector_bytes<SumTaps, const std::vector<Tap<C>>&>(SumTaps{}, taps.of(image, query, head, pixels), channels,
                                                             sums.data());
      T* const to = out.data + image * out.stride[0] + query * out.stride[1] + head * channels * out.stride[2];
      store_block<T>(sums.data(), channels, to, out.stride[2]);
    }
  }
};

// From the gradient of a query's sum to those of its pixels, and for each tap and corner the sum over channels of the
// gradient times the pixel.
struct SpreadTaps {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const std::vector<Tap<C>>& taps, int64_t channels,
                                      const C* gradient, bool has_pixels, C* dots) const {
    constexpr int64_t lanes = bytes / sizeof(C);
    for (const Tap<C>& tap : taps) {
      typename cpu::Register<bytes, C>::Lanes wide[4] = {};
      typename cpu::Register<sizeof(C), C>::Lanes narrow[4] = {};
      int64_t c = 0;
      for (; c + lanes <= channels; c += lanes) add<bytes>(tap, c, gradient, has_pixels, wide);
      for (; c < channels; ++c) add<sizeof(C)>(tap, c, gradient, has_pixels, narrow);
      for (int k = 0; k < 4; ++k) *dots++ = cpu::sum_of<bytes, C>(wide[k]) + narrow[k][0];
    }
  }

 private:
  template <int bytes, class C, class Lanes>
  static OPSMITH_HOST_DEVICE void add(const Tap<C>& tap, int64_t c, const C* gradient, bool has_pixels,
                                      Lanes (&dot)[4]) {
    const Lanes own = *reinterpret_cast<const Lanes*>(gradient + c);
    for (int k = 0; k < 4; ++k) dot[k] += own * *reinterpret_cast<const Lanes*>(tap.corner[k] + c);
    if (!has_pixels) return;
    for (int k = 0; k < 4; ++k) {
      *reinterpret_cast<Lanes*>(tap.gradient[k] + c) += (tap.attention * tap.share[k]) * own;
    }
  }
};

template <class T>
struct Backward {
  using C = compute_t<T>;

  Inputs<T> inputs;
  View<const T, 3> grad_out;
  View<T, 4> grad_value;
  View<T, 6> grad_locations;
  View<T, 5> grad_weights;

  void run() const {
    if (grad_value.numel() + grad_locations.numel() + grad_weights.numel() == 0) return;
    parallel_for(0, inputs.images() * inputs.heads(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) spread(piece / inputs.heads(), piece % inputs.heads());
    });
  }

 private:
  void spread(int64_t image, int64_t head) const {
    const int64_t channels = inputs.channels();
    const bool has_pixels = grad_value.numel() > 0;
    const Pixels<T> pixels(inputs.value, image, head);
    Taps<T> taps(inputs);
    std::vector<C> sums, gradient(static_cast<size_t>(channels)), dots(4 * inputs.taps());
    if (has_pixels) {
      sums.resize(static_cast<size_t>(inputs.pixels() * channels));
      taps.collect_in(sums.data());
    }
    for (int64_t query = 0; query < inputs.queries(); ++query) {
      const T* const from = grad_out.data + image * grad_out.stride[0] + query * grad_out.stride[1] +
                            head * channels * grad_out.stride[2];
      load_block<T>(from, grad_out.stride[2], channels, gradient.data());
      const std::vector<Tap<C>>& list = taps.of(image, query, head, pixels);
      with_vector_bytes<SpreadTaps, const std::vector<Tap<C>>&>(SpreadTaps{}, list, channels, gradient.data(),
                                                                has_pixels, dots.data());
      write(image, query, head, list, dots.data());
    }
    if (!has_pixels) return;
    for (int64_t pixel = 0; pixel < inputs.pixels(); ++pixel) {
      store_block<T>(sums.data() + pixel * channels, channels, &grad_value(image, pixel, head, 0),
                     grad_value.stride[3]);
    }
  }

  // The gradients of a query's locations and weights.
  void write(int64_t image, int64_t query, int64_t head, const std::vector<Tap<C>>& list, const C* dots) const {
    const int64_t points = inputs.points();
    for (size_t index = 0; index < list.size(); ++index, dots += 4) {
      const Tap<C>& tap = list[index];
      const int64_t l = static_cast<int64_t>(index) / points, p = static_cast<int64_t>(index) % points;
      if (grad_weights.numel() > 0) {
        C sum = 0;
        for (int k = 0; k < 4; ++k) sum += tap.share[k] * dots[k];
        grad_weights(image, query, head, l, p) = T(sum);
      }
      if (grad_locations.numel() == 0) continue;
      const Level& level = inputs.levels[static_cast<size_t>(l)];
      C along_x = 0, along_y = 0;
      if (tap.is_inside) {
        bilinear::slopes(dots, tap.below, tap.right, along_y, along_x);
        along_x *= tap.attention * static_cast<C>(level.width);
        along_y *= tap.attention * static_cast<C>(level.height);
      }
      grad_locations(image, query, head, l, p, 0) = T(along_x);
      grad_locations(image, query, head, l, p, 1) = T(along_y);
    }
  }
};

}  // namespace
}  // namespace opsmith::ops::ms_deform_attn
