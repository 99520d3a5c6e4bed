// The backward on the CPU. A task has an image and up to 32 channels of it, and owns their gradient: it goes through
// the output by tiles, multiplies the output's gradient with the weights to that of the samples, and hands it on to the
// pixels in the order of the positions. The offsets' and masks' gradients are sums over all channels of an offset
// group, and the weight's over all images: each task writes its part, and the parts are added in their order. So
// results do not depend on the number of threads.
#pragma once

#include <opsmith/reduce.h>

#include "spread_cpu.h"

namespace opsmith::ops::deform_conv2d {
namespace {

// Channels next to each other that are of one group and of one offset group.
struct Segment {
  int64_t channel, count, group, offset_group;
};

inline std::vector<Segment> find_segments(const Convolution& call) {
  constexpr int64_t most = 32;  // two vectors of AVX-512; their pixels and gradients fit the second-level cache
  std::vector<Segment> segments;
  for (int64_t channel = 0; channel < call.channels;) {
    const int64_t group = channel / call.group_channels(), offset_group = channel / call.offset_group_channels();
    const int64_t end = std::min(
        {channel + most, (group + 1) * call.group_channels(), (offset_group + 1) * call.offset_group_channels()});
    segments.push_back({channel, end - channel, group, offset_group});
    channel = end;
  }
  return segments;
}

// What is the same for all tasks of a backward, and the parts that they write.
template <class T>
class Backward {
  using C = compute_t<T>;

 public:
  Backward(const Convolution& call, const View<const T, 4>& grad_out, const View<const T, 4>& input,
           const View<const T, 4>& offset, const View<const T, 4>& weight, const View<const T, 4>& mask,
           const Gradients<T>& to)
      : call_(call),
        grad_out_(grad_out),
        input_(input),
        offset_(offset),
        mask_(mask),
        to_(to),
        segments_(find_segments(call)),
        tiles_(call, tile_positions<C>(call.taps(), 32)),
        needs_points_(to.offset.numel() > 0 || to.mask.numel() > 0),
        // Images at once: so many that there are tasks for many threads, each of which needs memory for its parts.
        together_(std::clamp<int64_t>(16 / std::max<int64_t>(1, count()), 1, std::max<int64_t>(1, call.images))) {
    lay_out_weights(weight);
    if (to.weight.numel() > 0) weight_parts_.resize(static_cast<size_t>(together_ * part_size()));
    if (needs_points_) point_parts_.resize(static_cast<size_t>(together_ * count() * points_size()));
  }

  void run() {
    for (int64_t first = 0; first < call_.images; first += together_) {
      const int64_t images = std::min(together_, call_.images - first);
      parallel_for(0, images * count(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) handle(first, task / count(), task % count());
      });
      if (needs_points_) {
        parallel_for(0, images * call_.offset_groups * call_.taps(), 4, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            add_points(first, n / (call_.offset_groups * call_.taps()), n % (call_.offset_groups * call_.taps()));
          }
        });
      }
    }
    if (to_.weight.numel() > 0) {
      parallel_for(0, call_.outputs, 8, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) add_weights(o);
      });
    }
  }

 private:
  int64_t count() const { return static_cast<int64_t>(segments_.size()); }
  int64_t row_of(const Segment& segment) const { return padded<C>(call_.taps() * segment.count); }
  // The gradients along y, along x and of the mask of all points of a segment: [tap][3][position].
  int64_t points_size() const { return call_.taps() * 3 * call_.positions(); }
  // Those of the weights: [output of the group][tap * channels of the segment + channel], segment by segment.
  int64_t part_size() const { return weights_begin_.back(); }

  // A right-hand matrix for each segment: [output of the group][tap * channels + channel].
  void lay_out_weights(const View<const T, 4>& weight) {
    weights_begin_.push_back(0);
    for (const Segment& segment : segments_) {
      weights_begin_.push_back(weights_begin_.back() + call_.group_outputs() * row_of(segment));
    }
    weights_.resize(static_cast<size_t>(part_size()));
    parallel_for(0, count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const Segment& segment = segments_[static_cast<size_t>(s)];
        for_each_weight(s, [&](int64_t m, int64_t c, int64_t tap, int64_t at) {
          weights_[static_cast<size_t>(at)] =
              C(weight(segment.group * call_.group_outputs() + m, segment.channel % call_.group_channels() + c,
                       tap / call_.taps_x, tap % call_.taps_x));
        });
      }
    });
  }

  template <class F>
  void for_each_weight(int64_t s, const F& f) const {
    const Segment& segment = segments_[static_cast<size_t>(s)];
    for (int64_t m = 0; m < call_.group_outputs(); ++m) {
      const int64_t begin = weights_begin_[static_cast<size_t>(s)] + m * row_of(segment);
      for (int64_t c = 0; c < segment.count; ++c) {
        for (int64_t tap = 0; tap < call_.taps(); ++tap) f(m, c, tap, begin + tap * segment.count + c);
      }
    }
  }

  // One segment of the image `first + slot`.
  void handle(int64_t first, int64_t slot, int64_t s) {
    const Segment& segment = segments_[static_cast<size_t>(s)];
    const int64_t image = first + slot, width = segment.count, row = row_of(segment), outputs = call_.group_outputs();
    const int64_t none = call_.height * call_.width * width;
    std::vector<C> pixels(static_cast<size_t>(none + width)), grad_pixels;
    const cpu::Window whole{{0, call_.height - 1}, {0, call_.width - 1}};
    cpu::ChannelBlock<const T>(input_, image, segment.channel, width).load(whole, pixels.data());
    if (to_.input.numel() > 0) grad_pixels.resize(pixels.size());
    const bool needs_samples = to_.weight.numel() > 0, needs_gradient = needs_points_ || to_.input.numel() > 0;
    const int64_t most = tiles_.largest();
    Scratch<C> outer(most * outputs), samples(most * row), grad_samples(most * row);
    std::vector<C> dots(static_cast<size_t>(needs_points_ ? 4 * most * call_.taps() : 0));
    std::vector<TapPixels<C>> places;
    const PixelLayout layout{call_.width * width, width, none};
    for (int64_t t = 0; t < tiles_.count(); ++t) {
      const Tile tile = tiles_[t];
      find_places(call_, offset_, mask_, image, segment.offset_group, tile, layout, places);
      cpu::ChannelBlock<const T>(tile.of(grad_out_), image, segment.group * outputs, outputs)
          .load(tile.window(), outer.data);
      if (needs_gradient) multiply_weights(s, tile.size(), outer.data, grad_samples.data);
      spread_tile(Spread<C>{places, call_.taps(), width, pixels.data(),
                            to_.input.numel() > 0 ? grad_pixels.data() : nullptr,
                            needs_samples ? samples.data : nullptr, needs_gradient ? grad_samples.data : nullptr, row,
                            needs_points_ ? dots.data() : nullptr});
      if (needs_points_) store_points(slot, s, tile, places, dots);
      if (needs_samples) multiply_samples(slot, s, tile.size(), outer.data, samples.data);
    }
    if (to_.input.numel() > 0) cpu::ChannelBlock<T>(to_.input, image, segment.channel, width).store(grad_pixels.data());
  }

  // The gradient of a tile's samples, that of the output times the weights.
  void multiply_weights(int64_t s, int64_t positions, const C* outer, C* grad_samples) const {
    const Segment& segment = segments_[static_cast<size_t>(s)];
    const int64_t columns = call_.taps() * segment.count, row = row_of(segment), outputs = call_.group_outputs();
    const C* const weights = weights_.data() + weights_begin_[static_cast<size_t>(s)];
    for (int64_t k = 0; k < columns; k += panel<C>) {
      multiply_panel(positions, std::min(panel<C>, columns - k), outputs, outer, outputs, int64_t{1}, weights + k, row,
                     grad_samples + k, row);
    }
  }

  // Adds a tile's share of the weight's gradient: that of the output, transposed, times the samples.
  void multiply_samples(int64_t slot, int64_t s, int64_t positions, const C* outer, const C* samples) {
    const Segment& segment = segments_[static_cast<size_t>(s)];
    const int64_t columns = call_.taps() * segment.count, row = row_of(segment), outputs = call_.group_outputs();
    C* const to = weight_parts_.data() + slot * part_size() + weights_begin_[static_cast<size_t>(s)];
    Scratch<C> product(outputs * panel<C>);
    for (int64_t k = 0; k < columns; k += panel<C>) {
      const int64_t width = std::min(panel<C>, columns - k);
      multiply_panel(outputs, width, positions, outer, int64_t{1}, outputs, samples + k, row, product.data, width);
      for (int64_t m = 0; m < outputs; ++m) add_to(width, product.data + m * width, to + m * row + k);
    }
  }

  // A tile's part of the offsets' and masks' gradients.
  void store_points(int64_t slot, int64_t s, const Tile& tile, const std::vector<TapPixels<C>>& places,
                    const std::vector<C>& dots) {
    C* const to = point_parts_.data() + (slot * count() + s) * points_size();
    const int64_t positions = call_.positions(), taps = call_.taps();
    for (int64_t n = 0; n < static_cast<int64_t>(places.size()); ++n) {
      const TapPixels<C>& place = places[static_cast<size_t>(n)];
      const C* const dot = dots.data() + 4 * n;
      C along_y, along_x;
      bilinear::slopes(dot, place.below, place.right, along_y, along_x);
      C* const at = to + n % taps * 3 * positions + tile.place(n / taps, call_.out_width);
      at[0] = place.is_outside ? C(0) : place.mask * along_y;
      at[positions] = place.is_outside ? C(0) : place.mask * along_x;
      at[2 * positions] =
          place.weight[0] * dot[0] + place.weight[1] * dot[1] + place.weight[2] * dot[2] + place.weight[3] * dot[3];
    }
  }

  // Adds up the parts of one tap of one offset group.
  void add_points(int64_t first, int64_t slot, int64_t channel) {
    const int64_t offset_group = channel / call_.taps(), tap = channel % call_.taps(), positions = call_.positions();
    std::vector<C> sums(static_cast<size_t>(3 * positions));
    for (int64_t s = 0; s < count(); ++s) {
      if (segments_[static_cast<size_t>(s)].offset_group != offset_group) continue;
      const C* const part = point_parts_.data() + (slot * count() + s) * points_size() + tap * 3 * positions;
      add_to(3 * positions, part, sums.data());
    }
    for (int64_t i = 0; i < call_.out_height; ++i) {
      const C* const from = sums.data() + i * call_.out_width;
      const int64_t width = call_.out_width;
      const View<T, 4>&offset = to_.offset, &mask = to_.mask;
      if (offset.numel() > 0) {
        store_block<T>(from, width, &offset(first + slot, 2 * channel, i, 0), offset.stride[3]);
        store_block<T>(from + positions, width, &offset(first + slot, 2 * channel + 1, i, 0), offset.stride[3]);
      }
      if (mask.numel() > 0) {
        store_block<T>(from + 2 * positions, width, &mask(first + slot, channel, i, 0), mask.stride[3]);
      }
    }
  }

  // Adds up the parts of one output's weights.
  void add_weights(int64_t o) {
    const int64_t outputs = call_.group_outputs(), m = o % outputs;
    for (int64_t s = 0; s < count(); ++s) {
      const Segment& segment = segments_[static_cast<size_t>(s)];
      if (segment.group != o / outputs) continue;
      const int64_t begin = weights_begin_[static_cast<size_t>(s)] + m * row_of(segment);
      C* const sum = weight_parts_.data() + begin;
      for (int64_t slot = 1; slot < together_; ++slot) add_to(row_of(segment), sum + slot * part_size(), sum);
      for (int64_t c = 0; c < segment.count; ++c) {
        for (int64_t tap = 0; tap < call_.taps(); ++tap) {
          to_.weight(o, segment.channel % call_.group_channels() + c, tap / call_.taps_x, tap % call_.taps_x) =
              T(sum[tap * segment.count + c]);
        }
      }
    }
  }

  const Convolution& call_;
  const View<const T, 4>&grad_out_, &input_, &offset_, &mask_;
  const Gradients<T>& to_;
  std::vector<Segment> segments_;
  Tiles tiles_;
  bool needs_points_;
  int64_t together_;
  std::vector<int64_t> weights_begin_;
  std::vector<C> weights_, weight_parts_, point_parts_;
};

// The bias' gradient, the sum over images and positions.
template <class T>
void sum_outputs(const View<const T, 4>& grad_out, const View<T, 1>& grad_bias) {
  const int64_t positions = grad_out.size[0] * grad_out.size[2] * grad_out.size[3];
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, positions));
  parallel_for(0, grad_bias.size[0], grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      double sum = 0;
      for (int64_t n = 0; n < grad_out.size[0]; ++n) {
        for (int64_t i = 0; i < grad_out.size[2]; ++i) {
          for (int64_t j = 0; j < grad_out.size[3]; j += block_size) {
            const int64_t count = std::min(block_size, grad_out.size[3] - j);
            sum += sum_block(count, InputBlock<T>(&grad_out(n, o, i, j), grad_out.stride[3], count).data);
          }
        }
      }
      grad_bias(o) = T(static_cast<compute_t<T>>(sum));
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
