// roi_align on the CPU: each bin a weighted sum of pixels, 32 channels at a time.
//
// The weights of a box are worked out once. Then an image is taken by blocks of channels, laid side by side in a buffer
// of floats (channels_last float32 features are so already and stay where they are), and every box of the image is
// pooled from it: a tap is one multiply-add on a vector of channels, whatever the layout and the type were. The
// backward goes the same way in the other direction. A block of channels belongs to one thread, which adds up its boxes
// in their order: results do not depend on the number of threads.
#pragma once

#include <vector>

#include "../_cpu/channel_block.h"
#include "../_cpu/registers.h"
#include "roi_align.h"

namespace opsmith::ops::roi_align {
namespace {

// A pixel's place along an axis and its weight.
template <class C>
struct PixelWeight {
  int64_t pixel;
  C weight;
};

// The taps of all bins along an axis: those of bin i are taps[begin[i]] to taps[begin[i + 1] - 1].
template <class C>
struct AxisWeights {
  std::vector<int64_t> begin;
  std::vector<PixelWeight<C>> taps;

  // `weights` is zero, one for each pixel, and is left so.
  void fill(const Side& side, int64_t bins, std::vector<C>& weights) {
    begin.push_back(0);
    for (int64_t bin = 0; bin < bins; ++bin) {
      int64_t low = side.size, high = -1;
      side.for_each(bin, [&](int64_t pixel, float weight) {
        weights[static_cast<size_t>(pixel)] += static_cast<C>(weight);
        low = pixel < low ? pixel : low;
        high = pixel > high ? pixel : high;
      });
      for (int64_t pixel = low; pixel <= high; ++pixel) {
        C& weight = weights[static_cast<size_t>(pixel)];
        if (weight != 0) taps.push_back({pixel, weight / static_cast<C>(side.samples)});
        weight = 0;
      }
      begin.push_back(static_cast<int64_t>(taps.size()));
    }
  }

  void widen(cpu::Span& span) const {
    for (const PixelWeight<C>& tap : taps) span.include(tap.pixel);
  }
};

template <class C>
struct BoxWeights {
  AxisWeights<C> y, x;
};

// The boxes of a call, by image and within it in their order.
template <class C>
struct Boxes {
  std::vector<BoxWeights<C>> taps;
  std::vector<std::vector<int64_t>> of_image;
  std::vector<int64_t> bad;

  Boxes(const View<const float, 2>& boxes, const Pooling& pooling)
      : taps(static_cast<size_t>(boxes.size[0])), of_image(static_cast<size_t>(pooling.images)) {
    const int64_t count = boxes.size[0];
    for (int64_t k = 0; k < count; ++k) {
      const int64_t image = read_roi(boxes, k, pooling).image;
      (image < 0 ? bad : of_image[static_cast<size_t>(image)]).push_back(k);
    }
    parallel_for(0, count, 16, [&](int64_t begin, int64_t end) {
      std::vector<C> rows(static_cast<size_t>(pooling.height)), columns(static_cast<size_t>(pooling.width));
      for (int64_t k = begin; k < end; ++k) {
        const Roi roi = read_roi(boxes, k, pooling);
        if (roi.image < 0) continue;
        taps[static_cast<size_t>(k)].y.fill(roi.y, pooling.out_height, rows);
        taps[static_cast<size_t>(k)].x.fill(roi.x, pooling.out_width, columns);
      }
    });
  }
};

// What the vector loops need to know of a box and of the block of pixels it is in.
template <class C>
struct Grid {
  const int64_t *y_begin, *x_begin;
  const PixelWeight<C>*y, *x;
  int64_t y_bins, x_bins;
  int64_t row, column;  // elements from one row and from one pixel of the block to the next
  int64_t unit;         // channels in it

  Grid(const BoxWeights<C>& taps, const Pooling& pooling, int64_t row, int64_t column, int64_t unit)
      : y_begin(taps.y.begin.data()),
        x_begin(taps.x.begin.data()),
        y(taps.y.taps.data()),
        x(taps.x.taps.data()),
        y_bins(pooling.out_height),
        x_bins(pooling.out_width),
        row(row),
        column(column),
        unit(unit) {}
};

// bins[bin * unit + c] = the sum over the bin's pixels of weight * pixels[... + c], for some registers of channels.
template <int registers, int bytes, class C>
OPSMITH_HOST_DEVICE void pool_channels(const Grid<C>& grid, const C* pixels, C* bins) {
  using Lanes = typename cpu::Register<bytes, C>::Lanes;
  for (int64_t i = 0; i < grid.y_bins; ++i) {
    for (int64_t j = 0; j < grid.x_bins; ++j, bins += grid.unit) {
      Lanes sum[registers] = {};
      for (int64_t ty = grid.y_begin[i]; ty < grid.y_begin[i + 1]; ++ty) {
        const C* row = pixels + grid.y[ty].pixel * grid.row;
        for (int64_t tx = grid.x_begin[j]; tx < grid.x_begin[j + 1]; ++tx) {
          const Lanes* from = reinterpret_cast<const Lanes*>(row + grid.x[tx].pixel * grid.column);
          const C weight = grid.y[ty].weight * grid.x[tx].weight;
          for (int r = 0; r < registers; ++r) sum[r] += weight * from[r];
        }
      }
      for (int r = 0; r < registers; ++r) reinterpret_cast<Lanes*>(bins)[r] = sum[r];
    }
  }
}

// The transposed: adds weight * bins[bin * unit + c] to the bin's pixels.
template <int registers, int bytes, class C>
OPSMITH_HOST_DEVICE void spread_channels(const Grid<C>& grid, const C* bins, C* pixels) {
  using Lanes = typename cpu::Register<bytes, C>::Lanes;
  for (int64_t i = 0; i < grid.y_bins; ++i) {
    for (int64_t j = 0; j < grid.x_bins; ++j, bins += grid.unit) {
      Lanes value[registers];
      for (int r = 0; r < registers; ++r) value[r] = reinterpret_cast<const Lanes*>(bins)[r];
      for (int64_t ty = grid.y_begin[i]; ty < grid.y_begin[i + 1]; ++ty) {
        C* row = pixels + grid.y[ty].pixel * grid.row;
        for (int64_t tx = grid.x_begin[j]; tx < grid.x_begin[j + 1]; ++tx) {
          Lanes* to = reinterpret_cast<Lanes*>(row + grid.x[tx].pixel * grid.column);
          const C weight = grid.y[ty].weight * grid.x[tx].weight;
          for (int r = 0; r < registers; ++r) to[r] += weight * value[r];
        }
      }
    }
  }
}

struct Pool {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const Grid<C>& grid, const C* pixels, C* bins) const {
    constexpr int64_t lanes = bytes / sizeof(C);
    int64_t c = 0;
    for (; c + 2 * lanes <= grid.unit; c += 2 * lanes) pool_channels<2, bytes>(grid, pixels + c, bins + c);
    for (; c + lanes <= grid.unit; c += lanes) pool_channels<1, bytes>(grid, pixels + c, bins + c);
    for (; c < grid.unit; ++c) pool_channels<1, sizeof(C)>(grid, pixels + c, bins + c);
  }
};

struct Spread {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const Grid<C>& grid, const C* bins, C* pixels) const {
    constexpr int64_t lanes = bytes / sizeof(C);
    int64_t c = 0;
    for (; c + 2 * lanes <= grid.unit; c += 2 * lanes) spread_channels<2, bytes>(grid, bins + c, pixels + c);
    for (; c + lanes <= grid.unit; c += lanes) spread_channels<1, bytes>(grid, bins + c, pixels + c);
    for (; c < grid.unit; ++c) spread_channels<1, sizeof(C)>(grid, bins + c, pixels + c);
  }
};

// Not inlined: the three instruction sets exist once for float and once for double.
template <class C>
__attribute__((noinline)) void pool(const Grid<C>& grid, const C* pixels, C* bins) {
  with_vector_bytes<Pool, const Grid<C>&>(Pool{}, grid, pixels, bins);
}
template <class C>
__attribute__((noinline)) void spread(const Grid<C>& grid, const C* bins, C* pixels) {
  with_vector_bytes<Spread, const Grid<C>&>(Spread{}, grid, bins, pixels);
}

// Channels in a block: two vectors of AVX-512, and 32 of them of a common image fit the second-level cache.
constexpr int64_t block_channels = 32;

// The rows and columns that the boxes [begin, end) of an image touch.
template <class C>
cpu::Window window_of(const Boxes<C>& boxes, const std::vector<int64_t>& rois, int64_t begin, int64_t end) {
  cpu::Window window;
  for (int64_t r = begin; r < end; ++r) {
    const BoxWeights<C>& taps = boxes.taps[static_cast<size_t>(rois[static_cast<size_t>(r)])];
    taps.y.widen(window.y);
    taps.x.widen(window.x);
  }
  return window;
}

// Pools the boxes of one level. The first level also clears the results of all that are not its own.
template <class T>
void pool_level(const View<const T, 4>& features, const View<const float, 2>& boxes, const Pooling& pooling,
                bool is_first, const View<T, 4>& out) {
  using C = compute_t<T>;
  if (out.numel() == 0) return;
  const Boxes<C> all(boxes, pooling);
  const int64_t channels = out.size[1], bins = pooling.out_height * pooling.out_width;
  const std::vector<C> zeros(static_cast<size_t>(bins * block_channels));
  const int64_t blocks = (channels + block_channels - 1) / block_channels;
  // With few blocks the boxes of an image are shared out too, although each share lays out its pixels again.
  const int64_t shares = pooling.images * blocks < 8 ? 4 : 1;
  parallel_for(0, pooling.images * blocks * shares, 1, [&](int64_t begin, int64_t end) {
    std::vector<C> pixels, pooled(static_cast<size_t>(bins * block_channels));
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t share = piece % shares, block = piece / shares % blocks, image = piece / shares / blocks;
      const std::vector<int64_t>& rois = all.of_image[static_cast<size_t>(image)];
      const int64_t count = static_cast<int64_t>(rois.size());
      const int64_t first = count * share / shares, behind = count * (share + 1) / shares;
      const cpu::Window window = window_of(all, rois, first, behind);
      const int64_t channel = block * block_channels;
      const int64_t unit = channels - channel < block_channels ? channels - channel : block_channels;
      const cpu::ChannelBlock<const T> from(features, image, channel, unit);
      int64_t row = from.row, column = from.column;
      const C* base = from.direct();
      if (base == nullptr) {
        row = window.x.size() * unit;
        column = unit;
        pixels.resize(static_cast<size_t>(window.y.size() * row));
        from.load(window, pixels.data());
        base = pixels.data() - window.y.low * row - window.x.low * column;
      }
      for (int64_t r = first; r < behind; ++r) {
        const int64_t k = rois[static_cast<size_t>(r)];
        pool(Grid<C>(all.taps[static_cast<size_t>(k)], pooling, row, column, unit), base, pooled.data());
        cpu::ChannelBlock<T>(out, k, channel, unit).store(pooled.data());
      }
    }
  });
  if (!is_first) return;
  for (const int64_t k : all.bad) {
    for (int64_t channel = 0; channel < channels; channel += block_channels) {
      const int64_t unit = channels - channel < block_channels ? channels - channel : block_channels;
      cpu::ChannelBlock<T>(out, k, channel, unit).store(zeros.data());
    }
  }
}

// The gradient of one level's features.
template <class T>
void spread_level(const View<const T, 4>& grad_out, const View<const float, 2>& boxes, const Pooling& pooling,
                  const View<T, 4>& grad_features) {
  using C = compute_t<T>;
  if (grad_features.numel() == 0) return;
  const bool has_bins = pooling.out_height * pooling.out_width > 0;
  const Boxes<C> all(has_bins ? boxes : View<const float, 2>{}, pooling);
  const int64_t channels = grad_features.size[1], bins = pooling.out_height * pooling.out_width;
  const int64_t blocks = (channels + block_channels - 1) / block_channels;
  const cpu::Window whole{{0, pooling.out_height - 1}, {0, pooling.out_width - 1}};
  parallel_for(0, pooling.images * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<C> pixels, gradient(static_cast<size_t>(bins * block_channels));
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t block = piece % blocks, image = piece / blocks, channel = block * block_channels;
      const int64_t unit = channels - channel < block_channels ? channels - channel : block_channels;
      pixels.assign(static_cast<size_t>(pooling.height * pooling.width * unit), C{0});
      for (const int64_t k : all.of_image[static_cast<size_t>(image)]) {
        cpu::ChannelBlock<const T>(grad_out, k, channel, unit).load(whole, gradient.data());
        spread(Grid<C>(all.taps[static_cast<size_t>(k)], pooling, pooling.width * unit, unit, unit), gradient.data(),
               pixels.data());
      }
      cpu::ChannelBlock<T>(grad_features, image, channel, unit).store(pixels.data());
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::roi_align
