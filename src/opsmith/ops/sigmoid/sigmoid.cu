// sigmoid on a GPU: y = 1 / (1 + exp(-x)), and its gradient.
#include "sigmoid.h"

#include <opsmith/elementwise.h>

using namespace opsmith;
using namespace opsmith::ops::sigmoid;

template <class T>
void sigmoid(View<const T, 1> x, View<T, 1> y, Stream stream) {
  elementwise("sigmoid", stream, Sigmoid{}, y, x);
}

template <class T>
void sigmoid_backward(View<const T, 1> grad_y, View<const T, 1> y, View<T, 1> grad_x, Stream stream) {
  elementwise("sigmoid_backward", stream, SigmoidBackward{}, grad_x, grad_y, y);
}
