// How the backward on a GPU divides a batch: its samples are made for some images, or some positions of one, at a time.
#pragma once

#include "gpu_samples.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// What is worked on at once: some images, or some positions of one where its samples alone are too many.
struct Piece {
  int64_t image, images;
  int first, positions;

  OPSMITH_HOST_DEVICE int64_t rows() const { return images * positions; }
};

// The samples of a piece, of `element_bytes` each, take at most 2^27 bytes, unless those of 128 positions alone take
// more. Images are shared out evenly.
class Pieces {
 public:
  Pieces(const Convolution& call, int64_t element_bytes) : call_(call) {
    constexpr int64_t most_bytes = int64_t{1} << 27, least_positions = 128;
    const int64_t rows = most_bytes / (call.taps() * call.channels * element_bytes), positions = call.positions();
    if (rows >= positions) {
      images = divide_up(call.images, divide_up(call.images, rows / positions));
      positions_ = static_cast<int>(positions);
    } else {
      const int64_t part = rows > least_positions ? rows / least_positions * least_positions : least_positions;
      images = 1;
      positions_ = static_cast<int>(part < positions ? part : positions);
    }
  }

  int64_t rows() const { return images * positions_; }
  bool divide_images() const { return positions_ < call_.positions(); }

  // Calls f with one piece after the other.
  template <class F>
  void for_each(const F& f) const {
    for (int64_t n = 0; n < call_.images; n += images) {
      for (int64_t first = 0; first < call_.positions(); first += positions_) {
        const int64_t left = call_.positions() - first;
        f(Piece{n, images < call_.images - n ? images : call_.images - n, static_cast<int>(first),
                static_cast<int>(positions_ < left ? positions_ : left)});
      }
    }
  }

  int64_t images;  // of a piece

 private:
  const Convolution& call_;
  int positions_;
};

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
