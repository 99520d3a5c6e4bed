// The backward of ms_deform_attn for few points on a CPU, held to its definition in float64: levels of any size and
// place, more points than a block has at hand, channels that are no whole vectors; and the same bits in every run.
#include "gpu_on_threads.h"

#include <cstdio>
#include <limits>
#include <random>

#include "../../../src/opsmith/ops/ms_deform_attn/ranges.cuh"
#include "../../../src/opsmith/ops/ms_deform_attn/slopes.cuh"

namespace {

using namespace opsmith;
using namespace opsmith::ops::ms_deform_attn;

struct Case {
  std::vector<std::vector<int64_t>> levels;  // height, width, start
  int64_t images, pixels, heads, channels, queries, points;
  int taps_each;
  double spread = 1.3;  // of locations, around the middle
};

template <int N>
using Sizes = std::array<int64_t, N>;

// A tensor, row by row.
template <class T, int N>
struct Tensor {
  Sizes<N> sizes;
  std::vector<T> data;

  explicit Tensor(Sizes<N> sizes, T value = T(0)) : sizes(sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    data.assign(static_cast<size_t>(count), value);
  }
  template <class U = T>
  View<U, N> view() {
    View<U, N> view{data.data(), {}, {}};
    int64_t stride = 1;
    for (int dim = N - 1; dim >= 0; --dim) {
      view.size[dim] = sizes[dim];
      view.stride[dim] = stride;
      stride *= sizes[dim];
    }
    return view;
  }
};

std::mt19937 generator(1);

template <class T, int N>
Tensor<T, N> at_random(Sizes<N> sizes, double middle, double spread) {
  Tensor<T, N> tensor(sizes);
  std::uniform_real_distribution<double> uniform(middle - spread / 2, middle + spread / 2);
  for (T& value : tensor.data) value = static_cast<T>(static_cast<compute_t<T>>(uniform(generator)));
  return tensor;
}

struct Inputs {
  int64_t images, queries, heads, levels, points;
};

template <class T>
struct Gradients {
  Tensor<T, 4> value;
  Tensor<T, 6> locations;
  Tensor<T, 5> weights;
};

// What has to be found, in float64; the samples are those of the kernels.
template <class T>
Gradients<double> defined(const Call<T>& call, const View<const T, 3>& grad_out) {
  const auto& locations = call.locations;
  Gradients<double> found{
      Tensor<double, 4>({call.value.size[0], call.value.size[1], call.value.size[2], call.value.size[3]}),
      Tensor<double, 6>(
          {locations.size[0], locations.size[1], locations.size[2], locations.size[3], locations.size[4], 2}),
      Tensor<double, 5>(
          {locations.size[0], locations.size[1], locations.size[2], locations.size[3], locations.size[4]})};
  const View<double, 4> grad_value = found.value.view();
  const View<double, 6> grad_locations = found.locations.view();
  const View<double, 5> grad_weights = found.weights.view();
  for (int64_t image = 0; image < call.images(); ++image) {
    for (int query = 0; query < call.queries(); ++query) {
      for (int head = 0; head < call.heads(); ++head) {
        for (int tap = 0; tap < call.taps(); ++tap) {
          const Sample<compute_t<T>> sample = call.sample(image, query, head, tap);
          const int l = tap / call.points(), p = tap % call.points();
          double dot[4] = {};
          const double weight = call.weight(image, query, head, tap);
          for (int k = 0; k < 4; ++k) {
            if (sample.pixel[k] < 0) continue;
            for (int c = 0; c < call.channels(); ++c) {
              const double gradient =
                  static_cast<compute_t<T>>(grad_out(image, query, int64_t{head} * call.channels() + c));
              dot[k] += gradient * static_cast<compute_t<T>>(call.value(image, sample.pixel[k], head, c));
              grad_value(image, sample.pixel[k], head, c) += weight * sample.share(k) * gradient;
            }
            grad_weights(image, query, head, l, p) += sample.share(k) * dot[k];
          }
          if (!sample.is_inside) continue;
          double along_y, along_x;
          ops::bilinear::slopes<double>(dot, sample.below, sample.right, along_y, along_x);
          grad_locations(image, query, head, l, p, 0) = weight * along_x * static_cast<double>(call.shapes(l, 1));
          grad_locations(image, query, head, l, p, 1) = weight * along_y * static_cast<double>(call.shapes(l, 0));
        }
      }
    }
  }
  return found;
}

template <bool vectors, class T>
Gradients<T> computed(const Call<T>& call, const View<const T, 3>& grad_out, int taps_each) {
  const T unwritten = static_cast<T>(std::numeric_limits<compute_t<T>>::quiet_NaN());
  const auto& size = call.locations.size;
  Gradients<T> found{
      Tensor<T, 4>({call.value.size[0], call.value.size[1], call.value.size[2], call.value.size[3]}, unwritten),
      Tensor<T, 6>({size[0], size[1], size[2], size[3], size[4], 2}, unwritten),
      Tensor<T, 5>({size[0], size[1], size[2], size[3], size[4]}, unwritten)};
  const Ranges<T> ranges(call, grad_out, found.value.view());
  const Slopes<T> slopes(call, grad_out, found.locations.view(), found.weights.view(), taps_each);
  const auto blocks = static_cast<unsigned>(slopes.pieces), all = blocks + static_cast<unsigned>(ranges.pieces());
  static RangeRoom<compute_t<T>> room;
  static Table<compute_t<T>> table;
  emulated::launch(1, block_threads, [&] {
    for (unsigned piece = 0; piece < all; ++piece) {
      if (piece < blocks) {
        slopes.template find<4, vectors>(call, piece, table);
      } else {
        ranges.template gather<vectors>(call, piece - blocks, room);
      }
    }
  });
  return found;
}

template <class Found, class Expected>
bool is_close(const char* name, const Found& found, const Expected& expected, double limit) {
  double most = 0, scale = 0;
  for (size_t n = 0; n < expected.data.size(); ++n) {
    const double value = static_cast<double>(static_cast<float>(found.data[n]));
    const double difference = std::abs(value - expected.data[n]);
    if (!(difference <= most)) most = difference;
    scale = std::max(scale, std::abs(expected.data[n]));
  }
  if (most <= limit * scale) return true;
  std::printf("the gradient of %s is off by %g of %g\n", name, most, scale);
  return false;
}

template <class Tensor>
bool are_same(const Tensor& one, const Tensor& other) {
  return std::memcmp(one.data.data(), other.data.data(), one.data.size() * sizeof(one.data[0])) == 0;
}

template <class T, bool vectors>
bool agrees(const Case& given, double limit) {
  const auto levels = static_cast<int64_t>(given.levels.size());
  Tensor<int64_t, 2> shapes({levels, 2});
  Tensor<int64_t, 1> starts({levels});
  for (int64_t l = 0; l < levels; ++l) {
    shapes.data[2 * l] = given.levels[l][0];
    shapes.data[2 * l + 1] = given.levels[l][1];
    starts.data[l] = given.levels[l][2];
  }
  auto value = at_random<T, 4>({given.images, given.pixels, given.heads, given.channels}, 0, 2);
  auto locations =
      at_random<T, 6>({given.images, given.queries, given.heads, levels, given.points, 2}, 0.5, given.spread);
  auto weights = at_random<T, 5>({given.images, given.queries, given.heads, levels, given.points}, 0.5, 1);
  auto grad_out = at_random<T, 3>({given.images, given.queries, given.heads * given.channels}, 0, 2);
  locations.data[0] = static_cast<T>(std::numeric_limits<compute_t<T>>::quiet_NaN());
  const Call<T> call{value.template view<const T>(), shapes.view<const int64_t>(), starts.view<const int64_t>(),
                     locations.template view<const T>(), weights.template view<const T>()};
  const View<const T, 3> gradients = grad_out.template view<const T>();
  const Gradients<T> found = computed<vectors>(call, gradients, given.taps_each);
  const Gradients<T> again = computed<vectors>(call, gradients, given.taps_each);
  const Gradients<double> expected = defined(call, gradients);
  bool is_right = is_close("value", found.value, expected.value, limit);
  is_right &= is_close("locations", found.locations, expected.locations, limit);
  is_right &= is_close("weights", found.weights, expected.weights, limit);
  if (!are_same(found.value, again.value) || !are_same(found.locations, again.locations) ||
      !are_same(found.weights, again.weights)) {
    std::printf("another run has other bits\n");
    is_right = false;
  }
  if (!is_right) std::printf("in a case of %d channels\n", static_cast<int>(given.channels));
  return is_right;
}

}  // namespace

int main() {
  const std::vector<std::vector<int64_t>> pyramid = {{12, 17, 0}, {6, 9, 204}, {3, 5, 258}, {1, 1, 273}};
  bool is_right = true;
  // Many points on few pixels: several looks, and several times as many as are at hand.
  is_right &= agrees<float, true>({pyramid, 1, 274, 1, 32, 530, 4, 4}, 1e-5);
  is_right &= agrees<float, true>({pyramid, 2, 280, 1, 16, 21, 3, 5}, 1e-5);
  is_right &= agrees<float, false>({{{9, 300, 0}, {40, 1, 2700}}, 1, 2745, 1, 5, 70, 2, 4}, 1e-5);
  is_right &= agrees<float, true>({{{9, 300, 0}, {40, 1, 2700}}, 1, 2745, 1, 32, 30, 2, 4}, 1e-5);
  is_right &= agrees<double, true>({pyramid, 1, 274, 1, 4, 33, 1, 4}, 1e-6);
  is_right &= agrees<bfloat16, true>({pyramid, 1, 274, 1, 32, 33, 4, 8}, 1e-2);
  is_right &= agrees<float16, false>({pyramid, 1, 274, 1, 1, 33, 4, 4}, 2e-3);
  // More channels than the lanes of a pixel take at once.
  is_right &= agrees<float, false>({{{7, 9, 0}}, 1, 63, 2, 130, 12, 4, 4}, 1e-5);
  // Levels that share pixels, have none, lie in front or behind, and say that they are larger than there are pixels.
  is_right &= agrees<float, true>(
      {{{4, 5, 20}, {4, 5, 25}, {0, 3, 0}, {-2, 7, 3}, {3, 4, -5}, {2, 2, 99}, {90, 90, 30}, {int64_t{1} << 40, 7, 0}},
       1,
       60,
       1,
       8,
       40,
       2,
       4},
      1e-5);
  // All points at one place; and more levels than a warp has lanes.
  is_right &= agrees<float, true>({{{5, 6, 0}}, 1, 30, 1, 8, 300, 4, 4, 0.01}, 1e-5);
  is_right &= agrees<float, true>({std::vector<std::vector<int64_t>>(35, {2, 3, 1}), 1, 9, 1, 4, 2, 1, 4}, 1e-5);
  std::printf("ms_deform_attn_few: %s\n", is_right ? "passed" : "failed");
  return is_right ? 0 : 1;
}
