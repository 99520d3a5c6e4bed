// The forward on the CPU: a tile of output positions is sampled into a buffer that stays in the cache, and multiplied
// with the weights by the task that has sampled it.
#pragma once

#include "cpu.h"

namespace opsmith::ops::deform_conv2d {
namespace {

// to[p * to_row + tap * to_tap + c] = the sample of channel c by a tap at a position.
struct SampleTile {
  template <int bytes, class C>
  OPSMITH_HOST_DEVICE void operator()(VectorBytes<bytes>, const std::vector<TapPixels<C>>& places, int64_t taps,
                                      const C* pixels, const C* zeros, int64_t channels, C* to, int64_t to_row,
                                      int64_t to_tap) const {
    constexpr int64_t lanes = bytes / sizeof(C);
    const int64_t positions = static_cast<int64_t>(places.size()) / taps;
    const TapPixels<C>* place = places.data();
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t tap = 0; tap < taps; ++tap, ++place) {
        const C* corner[4];
        for (int k = 0; k < 4; ++k) corner[k] = place->pixel[k] < 0 ? zeros : pixels + place->pixel[k];
        C* const target = to + p * to_row + tap * to_tap;
        int64_t c = 0;
        for (; c + lanes <= channels; c += lanes) sample<bytes>(*place, corner, c, target);
        for (; c < channels; ++c) sample<sizeof(C)>(*place, corner, c, target);
      }
    }
  }

  template <int bytes, class C>
  OPSMITH_HOST_DEVICE static void sample(const TapPixels<C>& place, const C* const corner[4], int64_t c, C* to) {
    using Lanes = typename cpu::Register<bytes, C>::Lanes;
    Lanes sum = place.weight[0] * *reinterpret_cast<const Lanes*>(corner[0] + c);
    for (int k = 1; k < 4; ++k) sum += place.weight[k] * *reinterpret_cast<const Lanes*>(corner[k] + c);
    *reinterpret_cast<Lanes*>(to + c) = place.mask * sum;
  }
};

// Not inlined: the three instruction sets exist once for float and once for double.
template <class C>
__attribute__((noinline)) void sample_tile(const std::vector<TapPixels<C>>& places, int64_t taps, const C* pixels,
                                           const C* zeros, int64_t channels, C* to, int64_t to_row, int64_t to_tap) {
  with_vector_bytes<SampleTile, const std::vector<TapPixels<C>>&>(SampleTile{}, places, taps, pixels, zeros, channels,
                                                                  to, to_row, to_tap);
}

// The weights of all groups as right-hand matrices [tap * channels of a group + channel][output of the group].
template <class T>
class ForwardWeights {
  using C = compute_t<T>;

 public:
  const int64_t row;  // elements from one to the next

  ForwardWeights(const Convolution& call, const View<const T, 4>& weight)
      : row(padded<C>(call.group_outputs())),
        group_(call.taps() * call.group_channels() * row),
        data_(std::max<int64_t>(1, call.groups * group_)) {
    parallel_for(0, call.outputs, 8, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        C* const to = data_.data + o / call.group_outputs() * group_ + o % call.group_outputs();
        for (int64_t c = 0; c < call.group_channels(); ++c) {
          for (int64_t tap = 0; tap < call.taps(); ++tap) {
            to[(tap * call.group_channels() + c) * row] = C(weight(o, c, tap / call.taps_x, tap % call.taps_x));
          }
        }
      }
    });
  }

  const C* of_group(int64_t group) const { return data_.data + group * group_; }

 private:
  int64_t group_;
  Scratch<C> data_;
};

// Some images as pixels whose channels lie side by side: the elements themselves where they lie so, else a copy.
template <class T>
class Images {
  using C = compute_t<T>;

 public:
  explicit Images(const View<const T, 4>& input) : input_(input), first_(0) {
    const cpu::ChannelBlock<const T> block(input, 0, 0, input.size[1]);
    is_direct_ = block.direct() != nullptr;
    row = is_direct_ ? block.row : input.size[3] * input.size[1];
    column = is_direct_ ? block.column : input.size[1];
  }

  int64_t row, column;  // elements from one row and from one pixel to the next

  // Makes the images [first, first + count) ready.
  void lay_out(int64_t first, int64_t count) {
    first_ = first;
    if (is_direct_) return;
    const int64_t channels = input_.size[1], height = input_.size[2], width = input_.size[3];
    copy_.resize(static_cast<size_t>(count * height * row));
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row));
    parallel_for(0, count * height, grain, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const cpu::Window window{{line % height, line % height}, {0, width - 1}};
        cpu::ChannelBlock<const T>(input_, first + line / height, 0, channels).load(window, copy_.data() + line * row);
      }
    });
  }

  const C* image(int64_t index) const {
    if (is_direct_) return cpu::ChannelBlock<const T>(input_, index, 0, input_.size[1]).direct();
    return copy_.data() + (index - first_) * input_.size[2] * row;
  }

 private:
  View<const T, 4> input_;
  int64_t first_;
  bool is_direct_;
  std::vector<C> copy_;
};

// One tile of one image: all its outputs.
template <class T>
void convolve_tile(const Convolution& call, const Images<T>& images, const View<const T, 4>& offset,
                   const ForwardWeights<T>& weights, const View<const T, 1>& bias, const View<const T, 4>& mask,
                   int64_t image, const Tile& tile, const compute_t<T>* zeros, View<T, 4> out) {
  using C = compute_t<T>;
  constexpr int64_t width = panel<C>;
  const int64_t channels = call.group_channels(), steps = call.taps() * channels, outputs = call.group_outputs();
  const int64_t row = padded<C>(steps);
  const PixelLayout layout{images.row, images.column, -1};
  std::vector<TapPixels<C>> places;
  Scratch<C> samples(tile.size() * row), sums(tile.size() * width);
  int64_t known = -1;  // the offset group that `places` are of
  for (int64_t group = 0; group < call.groups; ++group) {
    const int64_t end = (group + 1) * channels;
    for (int64_t channel = group * channels; channel < end;) {
      const int64_t offset_group = channel / call.offset_group_channels();
      const int64_t next = std::min(end, (offset_group + 1) * call.offset_group_channels());
      if (offset_group != known) find_places(call, offset, mask, image, offset_group, tile, layout, places);
      known = offset_group;
      if (call.taps() > 0) {
        sample_tile(places, call.taps(), images.image(image) + channel, zeros, next - channel,
                    samples.data + channel - group * channels, row, channels);
      }
      channel = next;
    }
    for (int64_t o = 0; o < outputs; o += width) {
      const int64_t count = std::min(width, outputs - o), first = group * outputs + o;
      multiply_panel(tile.size(), count, steps, samples.data, row, int64_t{1}, weights.of_group(group) + o, weights.row,
                     sums.data, count);
      if (bias) {
        for (int64_t p = 0; p < tile.size(); ++p) {
          for (int64_t k = 0; k < count; ++k) sums.data[p * count + k] += C(bias(first + k));
        }
      }
      cpu::ChannelBlock<T>(tile.of(out), image, first, count).store(sums.data);
    }
  }
}

template <class T>
void convolve(const Convolution& call, const View<const T, 4>& input, const View<const T, 4>& offset,
              const View<const T, 4>& weight, const View<const T, 1>& bias, const View<const T, 4>& mask,
              const View<T, 4>& out) {
  using C = compute_t<T>;
  const ForwardWeights<T> weights(call, weight);
  const Tiles tiles(call, tile_positions<C>(call.taps(), call.group_channels()));
  const std::vector<C> zeros(static_cast<size_t>(call.channels));
  Images<T> images(input);
  // Images that are laid out at once: one if it is large, else as many as have four million elements.
  const int64_t size = std::max<int64_t>(1, call.channels * call.height * call.width);
  const int64_t together = std::clamp<int64_t>((int64_t{1} << 22) / size, 1, call.images);
  for (int64_t first = 0; first < call.images; first += together) {
    const int64_t count = std::min(together, call.images - first);
    images.lay_out(first, count);
    parallel_for(0, count * tiles.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        convolve_tile(call, images, offset, weights, bias, mask, first + piece / tiles.count(),
                      tiles[piece % tiles.count()], zeros.data(), out);
      }
    });
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
