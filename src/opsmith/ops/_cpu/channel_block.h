// Some channels of an image side by side, pixel by pixel: what is laid out so is vectors of channels for every layout
// and element type.
#pragma once

#include <opsmith/block.h>
#include <opsmith/kernel.h>

#include <type_traits>
#include <vector>

namespace opsmith::ops::cpu {
namespace {

// The places from `low` to `high`; none where high is less.
struct Span {
  int64_t low, high;

  int64_t size() const { return high < low ? 0 : high - low + 1; }
  void include(int64_t place) {
    if (high < low) {
      low = high = place;
    } else {
      low = place < low ? place : low;
      high = place > high ? place : high;
    }
  }
};

// A rectangle of pixels.
struct Window {
  Span y{0, -1}, x{0, -1};
};

// to[j][i] = from[i][j]. Four by four in registers, which is five times as fast as an element at a time; g++ makes this
// of 16-byte shuffles by itself for no loop.
template <class C>
__attribute__((noinline)) void transpose(int64_t rows, int64_t columns, const C* from, int64_t from_stride, C* to,
                                         int64_t to_stride) {
  typedef C Four __attribute__((vector_size(4 * sizeof(C)), aligned(alignof(C)), may_alias));
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
      const C* corner = from + i * from_stride + j;
      const Four a = *reinterpret_cast<const Four*>(corner);
      const Four b = *reinterpret_cast<const Four*>(corner + from_stride);
      const Four c = *reinterpret_cast<const Four*>(corner + 2 * from_stride);
      const Four d = *reinterpret_cast<const Four*>(corner + 3 * from_stride);
      const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      C* place = to + j * to_stride + i;
      *reinterpret_cast<Four*>(place) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(place + to_stride) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(place + 2 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(place + 3 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    }
    for (; j < columns; ++j) {
      for (int64_t k = i; k < i + 4; ++k) to[j * to_stride + k] = from[k * from_stride + j];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

// `unit` channels of one image of a tensor [images, channels, height, width].
template <class T>
class ChannelBlock {
  using Element = std::remove_const_t<T>;
  using C = compute_t<Element>;

 public:
  int64_t row, column;

  ChannelBlock(const View<T, 4>& tensor, int64_t image, int64_t channel, int64_t unit)
      : row(tensor.stride[2]),
        column(tensor.stride[3]),
        data_(tensor.data + image * tensor.stride[0] + channel * tensor.stride[1]),
        channel_(tensor.stride[1]),
        unit_(unit),
        height_(tensor.size[2]),
        width_(tensor.size[3]) {}

  // The elements themselves where they lie side by side and are what is computed in; else null.
  const C* direct() const {
    if constexpr (std::is_same_v<Element, C>) {
      if (channel_ == 1 || unit_ == 1) return data_;
    }
    return nullptr;
  }

  // Lays out the pixels of a window as to[y][x][channel].
  void load(const Window& window, C* to) const {
    const int64_t width = window.x.size();
    if (width == 0) return;
    std::vector<C> lines;
    for (int64_t y = window.y.low; y <= window.y.high; ++y, to += width * unit_) {
      const T* from = data_ + y * row + window.x.low * column;
      if (channel_ == 1) {
        for (int64_t x = 0; x < width; ++x) load_block<Element>(from + x * column, 1, unit_, to + x * unit_);
        continue;
      }
      if constexpr (std::is_same_v<Element, C>) {
        if (column == 1) {
          transpose(unit_, width, from, channel_, to, unit_);
          continue;
        }
      }
      lines.resize(static_cast<size_t>(width * unit_));
      for (int64_t c = 0; c < unit_; ++c) {
        load_block<Element>(from + c * channel_, column, width, lines.data() + c * width);
      }
      transpose(unit_, width, lines.data(), width, to, unit_);
    }
  }

  // Writes all pixels from from[y][x][channel].
  void store(const C* from) const {
    // Rows that follow one another are one, as in a grid of bins, whose rows are shorter than a vector.
    const bool is_flat = row == width_ * column;
    const int64_t lines = is_flat ? 1 : height_, width = is_flat ? height_ * width_ : width_;
    std::vector<C> turned;
    for (int64_t y = 0; y < lines; ++y, from += width * unit_) {
      T* to = data_ + y * row;
      if (channel_ == 1) {
        for (int64_t x = 0; x < width; ++x) store_block<T>(from + x * unit_, unit_, to + x * column, 1);
        continue;
      }
      if constexpr (std::is_same_v<Element, C>) {
        if (column == 1) {
          transpose(width, unit_, from, unit_, to, channel_);
          continue;
        }
      }
      turned.resize(static_cast<size_t>(width * unit_));
      transpose(width, unit_, from, unit_, turned.data(), width);
      for (int64_t c = 0; c < unit_; ++c) {
        store_block<T>(turned.data() + c * width, width, to + c * channel_, column);
      }
    }
  }

 private:
  T* data_;
  int64_t channel_, unit_, height_, width_;
};

}  // namespace
}  // namespace opsmith::ops::cpu
