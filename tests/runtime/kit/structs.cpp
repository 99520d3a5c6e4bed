#include <opsmith/kernel.h>

using namespace opsmith;

// In another order than the dataclass's, which is all the same.
struct Scale {
  double factor;
};

namespace {

struct Window {
  double gain;
  int64_t size;
  bool is_negated;
  const char* name;
  Optional<double> limit;
  Optional<bool> is_shifted;
  Optional<int64_t> step;

  double offset() const {
    double total = step ? static_cast<double>(*step) : -100;
    total += is_shifted ? (*is_shifted ? 64 : 0) : -300;
    for (const char* letter = name; *letter != 0; ++letter) total += 1;
    return total;
  }
};

}  // namespace

template <class T>
void windowed(View<const T, 2> x, Window window, bool flip, Scale scale, View<T, 2> y) {
  using C = compute_t<T>;
  const int64_t width = y.size[1];
  for (int64_t b = 0; b < y.size[0]; ++b) {
    for (int64_t n = 0; n < width; ++n) {
      C value = n < x.size[1] ? static_cast<C>(x(b, n)) : C(0);
      value *= static_cast<C>(window.gain * scale.factor);
      if (window.is_negated) value = -value;
      value += static_cast<C>(window.offset());
      if (window.limit) {
        const C limit = static_cast<C>(*window.limit);
        value = value > limit ? limit : value < -limit ? -limit : value;
      }
      y(b, flip ? width - 1 - n : n) = static_cast<T>(value);
    }
  }
}
