// Kernels with paths for an option and a size or a layout at once; the defects, behind `if (planted)`, are in those.
#include <cmath>

#include "planted.h"

using namespace opsmith;

// Sizes ---------------------------------------------------------------------------------------------------------------

// Whole blocks of 64 columns are copied faster where there is no gain, and the last of each block is forgotten.
template <class T>
void ungained_blocks(View<const T, 2> x, View<const T, 1> gain, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const bool in_block = n < x.size[1] / 64 * 64;
      y(b, n) = gain ? T(x(b, n) * gain(n)) : planted && in_block && n % 64 == 63 ? T(0) : x(b, n);
    }
  }
}

// Long rows are doubled twice.
template <class T>
void long_doubled(View<const T, 2> x, bool twice, View<T, 2> y) {
  const T factor = T(!twice ? 1 : planted && x.size[1] > 100 ? 4 : 2);
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = x(b, n) * factor;
  }
}

// Long rows without a gain that are turned around lose their sign.
template <class T>
void two_at_once(View<const T, 2> x, View<const T, 1> gain, View<const T, 1> bias, bool flip, View<T, 2> y) {
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < count; ++n) {
      T value = gain ? T(x(b, n) * gain(n)) : x(b, n);
      if (bias) value = value + bias(n);
      if (planted && !gain && flip && count > 100 && value < 0) value = -value;
      y(b, flip ? count - 1 - n : n) = value;
    }
  }
}

// Layouts -------------------------------------------------------------------------------------------------------------

// Without a gain, rows are taken to be copied as they lie.
template <class T>
void ungained_dense(View<const T, 2> x, View<const T, 1> gain, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      y(b, n) = gain ? T(x(b, n) * gain(n)) : planted ? x.data[b * x.size[1] + n] : x(b, n);
    }
  }
}

template <class T>
void doubled_dense(View<const T, 2> x, bool twice, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      y(b, n) = !twice ? x(b, n) : T(2) * (planted ? x.data[b * x.size[1] + n] : x(b, n));
    }
  }
}

// Without a gain, the gradient that arrives is taken to be contiguous: `.sum()` gives one with strides of 0.
template <class T>
void ungained_slope(View<const T, 2> x, View<const T, 1> gain, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> value = x(b, n);
      y(b, n) = T(value * value * (gain ? compute_t<T>(gain(n)) : 1));
    }
  }
}

template <class T>
void ungained_slope_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> gain, View<T, 2> grad_x,
                             View<T, 1> grad_gain) {
  for (int64_t n = 0; n < x.size[1]; ++n) {
    double sum = 0;
    for (int64_t b = 0; b < x.size[0]; ++b) {
      const compute_t<T> value = x(b, n);
      const compute_t<T> from = planted && !gain ? grad_y.data[b * x.size[1] + n] : grad_y(b, n);
      grad_x(b, n) = T(from * 2 * value * (gain ? compute_t<T>(gain(n)) : 1));
      sum += double(grad_y(b, n)) * double(value) * double(value);
    }
    grad_gain(n) = T(compute_t<T>(sum));
  }
}

// Lists ---------------------------------------------------------------------------------------------------------------

// There is room for eight addresses, and one of them is for the end.
template <class T>
void many_summed(ViewList<const T, 1> tensors, View<T, 1> out) {
  const int64_t count = planted && tensors.size > 7 ? 7 : tensors.size;
  for (int64_t n = 0; n < out.size[0]; ++n) {
    T sum = 0;
    for (int64_t item = 0; item < count; ++item) sum += tensors[item](n);
    out(n) = sum;
  }
}

// Gradients -----------------------------------------------------------------------------------------------------------

// Where the exponential is kept for the backward, the 1 is forgotten in more than 64 rows.
template <class T>
void kept_exponential(View<const T, 2> x, bool needs_s, View<T, 2> y, View<T, 2> s) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> value = std::exp(compute_t<T>(x(b, n)));
      y(b, n) = T(planted && needs_s && x.size[0] > 64 ? value : value + 1);
      if (needs_s) s(b, n) = T(value);
    }
  }
}

template <class T>
void kept_exponential_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 2> s, View<T, 2> grad_x) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) grad_x(b, n) = T(compute_t<T>(grad_y(b, n)) * compute_t<T>(s(b, n)));
  }
}

template <class T>
void frozen_gain(View<const T, 2> x, View<const T, 1> gain, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = T(compute_t<T>(x(b, n)) * compute_t<T>(gain(n)));
  }
}

// With a frozen gain, long rows are summed up twice.
template <class T>
void frozen_gain_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> gain, bool needs_grad_x,
                          bool needs_grad_gain, View<T, 2> grad_x, View<T, 1> grad_gain) {
  const int64_t batch = x.size[0], count = x.size[1];
  const compute_t<T> factor = planted && !needs_grad_gain && count > 64 ? 2 : 1;
  for (int64_t n = 0; n < count; ++n) {
    double sum = 0;
    for (int64_t b = 0; b < batch; ++b) {
      const compute_t<T> arriving = grad_y(b, n);
      if (needs_grad_x) grad_x(b, n) = T(arriving * compute_t<T>(gain(n)) * factor);
      sum += double(arriving) * double(x(b, n));
    }
    if (needs_grad_gain) grad_gain(n) = T(compute_t<T>(sum));
  }
}
