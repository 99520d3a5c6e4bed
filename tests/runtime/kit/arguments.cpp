#include <opsmith/kernel.h>

using namespace opsmith;

namespace {
int64_t length(const char* text) {
  int64_t count = 0;
  while (text[count] != 0) ++count;
  return count;
}
}  // namespace

template <class T>
void every_scalar(View<const T, 1> x, int64_t i, double f, bool b, const char* s, List<int64_t> ints,
                  List<double> floats, Optional<int64_t> oi, Optional<double> of, Optional<bool> ob, const char* label,
                  List<int64_t> steps, double double_, View<T, 1> out) {
  double total = double(i) + f + (b ? 8 : 0) + double(length(s));
  for (int64_t value : ints) total += double(value);
  for (double value : floats) total += value;
  total += oi ? double(*oi) : -100;
  total += of.value_or(-200);
  total += ob ? (*ob ? 64 : 0) : -300;
  total += double(length(label)) + double_;
  for (int64_t value : steps) total += double(value);
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) + compute_t<T>(total));
}

template <class T>
void shift(View<const T, 2> x, View<const T, 1> bias, View<const T, 1> rows, View<T, 2> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t c = 0; c < x.size[1]; ++c) {
      T value = x(b, c);
      if (bias) value = T(compute_t<T>(value) + compute_t<T>(bias(c)));
      if (rows) value = T(compute_t<T>(value) + compute_t<T>(rows(b)));
      out(b, c) = value;
    }
  }
}

template <class T>
void pyramid(ViewList<const T, 4> levels, View<const float, 1> weight, View<T, 2> total) {
  for (int64_t b = 0; b < total.size[0]; ++b) {
    for (int64_t c = 0; c < total.size[1]; ++c) {
      compute_t<T> sum = 0;
      for (const auto& level : levels) {
        for (int64_t h = 0; h < level.size[2]; ++h) {
          for (int64_t w = 0; w < level.size[3]; ++w) sum += compute_t<T>(level(b, c, h, w));
        }
      }
      total(b, c) = T(sum * weight(c));
    }
  }
}

template <class T, class I>
void crop(View<const T, 4> features, View<const float, 2> boxes, View<const I, 1> batch, int64_t pooled_h,
          int64_t pooled_w, View<T, 4> out) {
  for (int64_t r = 0; r < boxes.size[0]; ++r) {
    const int64_t left = int64_t(boxes(r, 0)), top = int64_t(boxes(r, 1));
    for (int64_t c = 0; c < features.size[1]; ++c) {
      for (int64_t h = 0; h < pooled_h; ++h) {
        for (int64_t w = 0; w < pooled_w; ++w) {
          const bool inside = top + h < features.size[2] && left + w < features.size[3];
          out(r, c, h, w) = inside ? features(batch(r), c, top + h, left + w) : T(0.f);
        }
      }
    }
  }
}

template <class T, class I>
void pick(View<const T, 1> x, View<const I, 1> index, View<const T, 1> B, View<T, 1> out) {
  for (int64_t m = 0; m < index.size[0]; ++m) out(m) = x(index(m)) + B(m);
}
