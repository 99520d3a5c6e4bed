#include <opsmith/kernel.h>

using namespace opsmith;

template <class T>
void split_gates(View<const T, 2> gates, View<const T, 1> rest, View<T, 3> out) {
  const int64_t size = out.size[1];
  for (int64_t b = 0; b < out.size[0]; ++b) {
    for (int64_t s = 0; s < size; ++s) {
      for (int64_t i = 0; i < out.size[2]; ++i) {
        out(b, s, i) = T(compute_t<T>(gates(b, size + s)) * compute_t<T>(rest(size + i)));
      }
    }
  }
}

template <class T>
void upfir(View<const T, 2> x, View<const float, 1> taps, int64_t up, int64_t down, int64_t pad0, int64_t,
           View<T, 2> out) {
  for (int64_t b = 0; b < out.size[0]; ++b) {
    for (int64_t o = 0; o < out.size[1]; ++o) {
      compute_t<T> sum = 0;
      for (int64_t k = 0; k < taps.size[0]; ++k) {
        const int64_t place = o * down + k - pad0;
        if (place >= 0 && place % up == 0 && place / up < x.size[1]) {
          sum += compute_t<T>(x(b, place / up)) * compute_t<T>(taps(k));
        }
      }
      out(b, o) = T(sum);
    }
  }
}

template <class T>
void row_sums(View<const T, 2> x, View<T, 1> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    double sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += double(compute_t<T>(x(b, n)));
    out(b) = T(compute_t<T>(sum));
  }
}

template <class T>
void outer(View<const T, 2> x, View<const T, 2> y, View<T, 3> out) {
  for (int64_t b = 0; b < out.size[0]; ++b) {
    for (int64_t n = 0; n < out.size[1]; ++n) {
      for (int64_t m = 0; m < out.size[2]; ++m) out(b, n, m) = T(compute_t<T>(x(b, n)) * compute_t<T>(y(b, m)));
    }
  }
}

template <class T>
void middle(View<const T, 3> x, View<T, 3> out) {
  for (int64_t a = 0; a < x.size[0]; ++a) {
    for (int64_t b = 0; b < x.size[1]; ++b) {
      for (int64_t n = 0; n < x.size[2]; ++n) out(n, b, a) = x(a, b, n);
    }
  }
}

template <class T>
void column_count(View<const T, 2> x, View<int64_t, 0> out) {
  out() = x.numel();
}

template <class T>
void affine(View<const T, 1> x, View<const T, 0> factor, View<T, 1> out) {
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(compute_t<T>(x(n)) * compute_t<T>(factor()));
}

template <class T>
void row_max(View<const T, 2> x, View<T, 1> value, View<int64_t, 1> index) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    index(b) = 0;
    for (int64_t n = 1; n < x.size[1]; ++n) {
      if (compute_t<T>(x(b, n)) > compute_t<T>(x(b, index(b)))) index(b) = n;
    }
    value(b) = x(b, index(b));
  }
}

template <class T>
void halve(View<const T, 4> x, int64_t, View<T, 4> out) {
  for (int64_t b = 0; b < out.size[0]; ++b) {
    for (int64_t c = 0; c < out.size[1]; ++c) {
      for (int64_t h = 0; h < out.size[2]; ++h) {
        for (int64_t w = 0; w < out.size[3]; ++w) out(b, c, h, w) = x(b, c, 2 * h, 2 * w);
      }
    }
  }
}

template <class T>
void stride_of_rows(View<const T, 2> x, View<int64_t, 1> out) {
  out(0) = x.stride[0];
}
