#include <opsmith/kernel.h>

using namespace opsmith;

// y = scale[n] x^3: one forward for all, so that the defects are in the backward alone.
template <class T>
static void forward(View<const T, 2> x, View<const T, 1> scale, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const compute_t<T> value = x(b, n);
      y(b, n) = T(compute_t<T>(scale(n)) * value * value * value);
    }
  }
}

template <class T>
static void backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> scale, View<T, 2> grad_x,
                     View<T, 1> grad_scale, int64_t rows) {
  for (int64_t n = 0; n < x.size[1]; ++n) {
    compute_t<T> sum = 0;
    for (int64_t b = 0; b < x.size[0]; ++b) {
      const compute_t<T> value = x(b, n), grad = grad_y(b, n);
      grad_x(b, n) = T(3 * compute_t<T>(scale(n)) * value * value * grad);
      if (b < rows) sum += grad * value * value * value;
    }
    grad_scale(n) = T(sum);
  }
}

template <class T>
void right(View<const T, 2> x, View<const T, 1> scale, View<T, 2> y) {
  forward(x, scale, y);
}

template <class T>
void right_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> scale, View<T, 2> grad_x,
                    View<T, 1> grad_scale) {
  backward(grad_y, x, scale, grad_x, grad_scale, x.size[0]);
}

// The last row is left out of the sum.
template <class T>
void short_sum(View<const T, 2> x, View<const T, 1> scale, View<T, 2> y) {
  forward(x, scale, y);
}

template <class T>
void short_sum_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> scale, View<T, 2> grad_x,
                        View<T, 1> grad_scale) {
  backward(grad_y, x, scale, grad_x, grad_scale, x.size[0] - 1);
}

// The gradient that arrives is read as if it were contiguous.
template <class T>
void packed(View<const T, 2> x, View<const T, 1> scale, View<T, 2> y) {
  forward(x, scale, y);
}

template <class T>
void packed_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> scale, View<T, 2> grad_x,
                     View<T, 1> grad_scale) {
  grad_y.stride[0] = grad_y.stride[1] == 0 ? 0 : grad_y.size[1];
  grad_y.stride[1] = grad_y.stride[1] == 0 ? 0 : 1;
  backward(grad_y, x, scale, grad_x, grad_scale, x.size[0]);
}

// max(x, 0): right, but for the gradient where x is below zero.
template <class T>
void leaky(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = compute_t<T>(x(n)) < 0 ? T(0) : x(n);
}

template <class T>
void leaky_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    grad_x(n) = compute_t<T>(x(n)) < 0 ? T(compute_t<T>(grad_y(n)) * compute_t<T>(0.01)) : grad_y(n);
  }
}

// max(x, 0) whose gradient at zero is that from the right; the reference's is that from the left.
template <class T>
void kinked(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = compute_t<T>(x(n)) < 0 ? T(0) : x(n);
}

template <class T>
void kinked_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  for (int64_t n = 0; n < x.size[0]; ++n) grad_x(n) = compute_t<T>(x(n)) < 0 ? T(0) : grad_y(n);
}
