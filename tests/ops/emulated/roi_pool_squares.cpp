// roi_pool's tables of squares and the bins that are made of them on a CPU, held to the definition bit for bit: all
// element types, images of several tiles and of less than a square, and values most of which are equal.
#include "gpu_on_threads.h"

#include <cstdio>
#include <limits>
#include <random>

#include "../../../src/opsmith/ops/roi_pool/square_bins.cuh"
#include "../../../src/opsmith/ops/roi_pool/square_tile.cuh"

namespace {

using namespace opsmith;
using namespace opsmith::ops::roi_pool;

struct Case {
  int images, channels, height, width;
};

std::mt19937 generator(1);

int draw(int most) { return std::uniform_int_distribution<int>(0, most)(generator); }

template <class T>
std::vector<T> some_features(size_t count) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float few[] = {-infinity, -infinity, -infinity, -0.0f, 0.0f, 0.0f, 1.0f, 1.0f, 2.0f};
  std::vector<T> features(count);
  for (T& one : features) {
    const int chance = draw(999);
    const float value = chance < 4 ? std::numeric_limits<float>::quiet_NaN() : chance < 6 ? infinity : few[draw(8)];
    one = static_cast<T>(static_cast<compute_t<T>>(value));
  }
  return features;
}

// A bin's pixels along an axis, of which there are some.
Range some_pixels(int size) {
  const int low = draw(size - 1), most = std::min(size - low, draw(3) == 0 ? size : 9);
  return {low, low + 1 + draw(most - 1)};
}

template <class C>
bool are_same(C one, C other) {
  return one == other || (one != one && other != other);
}

template <bool vectors, bool has_places, class T>
bool agrees(const Case& call) {
  const auto [images, channels, height, width] = call;
  const int64_t pixels = int64_t{height} * width;
  const auto data = some_features<T>(static_cast<size_t>(images * channels * pixels));
  View<const T, 4> features{
      data.data(), {images, channels, height, width}, {channels * pixels, pixels, int64_t{width}, 1}};
  if (vectors)
    features = {
        data.data(), {images, channels, height, width}, {channels * pixels, 1, int64_t{width} * channels, channels}};
  const int parts = (channels + part_channels<T> - 1) / part_channels<T>;
  const int64_t entries = parts * images * pixels * part_lanes;
  std::vector<Vector<uint32_t, 4>> room(static_cast<size_t>(Squares<vectors, T>::bytes(entries, has_places)) / 16 + 1);
  const Squares<vectors, T> squares(room.data(), entries);
  const PlaneSteps plane{static_cast<int>(features.stride[2]), static_cast<int>(features.stride[3])};
  static TilePixels<has_places, T> memory;
  bool is_right = true;
  for (int part = 0; part < parts; ++part) {
    emulated::launch(1, square_threads, [&] {
      for (int image = 0; image < images; ++image) {
        for (int row = 0; row < height; row += tile_rows) {
          for (int column = 0; column < width; column += tile_columns) {
            const SquareTile tile{image, row, column, std::min(tile_rows, height - row)};
            make_tile<vectors, has_places>(features, tile, part * part_channels<T>, part, squares, memory);
            __syncthreads();
          }
        }
      }
    });
    for (int bin = 0; bin < 400; ++bin) {
      const int image = draw(images - 1), lane = draw(part_lanes - 1);
      const int channel = part * part_channels<T> + lane * lane_channels<T>;
      if (channel >= channels) continue;
      const Range y = some_pixels(height), x = some_pixels(width);
      const int first = (part * images + image) * height * width * part_lanes + lane;
      const LevelOfImage<vectors, T> from(squares, level_of(y, x), first, width, &features(image, channel, 0, 0),
                                          plane);
      std::conditional_t<has_places, LargestSquares<lane_channels<T>, T>, LargestValues<lane_channels<T>, T>> found[1];
      look_through_squares<0>(from, y, x, 1, found);
      for (int c = 0; c < lane_channels<T> && channel + c < channels; ++c) {
        compute_t<T> most = 0;
        int place = -1;
        for (int v = y.low; v < y.high; ++v) {
          for (int u = x.low; u < x.high; ++u) {
            const compute_t<T> value = features(image, channel + c, v, u);
            if (place < 0 || is_larger(value, most)) most = value, place = v * width + u;
          }
        }
        is_right &= are_same<compute_t<T>>(found[0].element(c), most);
        if constexpr (has_places) is_right &= found[0].place[c] == place;
      }
    }
  }
  if (!is_right) {
    std::printf("wrong: [%d, %d, %d, %d], %d bytes, vectors %d, places %d\n", images, channels, height, width,
                static_cast<int>(sizeof(T)), vectors, has_places);
  }
  return is_right;
}

template <bool vectors, class T>
bool agrees_both_ways(const Case& call) {
  return agrees<vectors, true, T>(call) && agrees<vectors, false, T>(call);
}

}  // namespace

int main() {
  bool is_right = true;
  is_right &= agrees_both_ways<false, float>({2, 67, 37, 70});
  is_right &= agrees_both_ways<true, float>({2, 68, 33, 34});
  is_right &= agrees_both_ways<true, double>({1, 10, 16, 65});
  is_right &= agrees_both_ways<false, double>({2, 3, 3, 40});
  is_right &= agrees_both_ways<true, float16>({1, 40, 17, 32});
  is_right &= agrees_both_ways<false, bfloat16>({3, 33, 50, 2});
  is_right &= agrees_both_ways<false, float16>({1, 1, 1, 1});
  std::printf("roi_pool_squares: %s\n", is_right ? "passed" : "failed");
  return is_right ? 0 : 1;
}
