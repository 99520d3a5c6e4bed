// Focal loss on a GPU, for targets that are probabilities.
#include <opsmith/reduce.h>

#include "focal.h"

using namespace opsmith;
using namespace opsmith::ops::sigmoid_focal_loss;

template <class T>
void focal_loss(View<const T, 1> inputs, View<const T, 1> targets, double alpha, double gamma, View<T, 1> loss,
                Stream stream) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Loss = DenseLoss<T, decltype(power)>;
    elementwise("focal_loss", stream, Loss(alpha, power), loss, inputs, targets);
  });
}

template <class T>
void focal_loss_backward(View<const T, 1> grad_loss, View<const T, 1> inputs, View<const T, 1> targets, double alpha,
                         double gamma, bool needs_grad_targets, View<T, 1> grad_inputs, View<T, 1> grad_targets,
                         Stream stream) {
  constexpr const char* op = "focal_loss_backward";
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Slope = DenseSlope<T, decltype(power)>;
    using Slopes = DenseSlopes<T, decltype(power)>;
    if (needs_grad_targets) {
      elementwise(op, stream, TimesEach<Slopes>{{alpha, power}}, grad_inputs, grad_targets, grad_loss, inputs, targets);
    } else {
      elementwise(op, stream, TimesEach<Slope>{{alpha, power}}, grad_inputs, grad_loss, inputs, targets);
    }
  });
}

template <class T>
void focal_loss_sum(View<const T, 1> inputs, View<const T, 1> targets, double alpha, double gamma, bool mean,
                    View<T, 0> loss, Stream stream) {
  const double divisor = mean ? static_cast<double>(inputs.size[0]) : 1.0;
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Loss = DenseLoss<T, decltype(power)>;
    sum_elementwise("focal_loss_sum", stream, Loss(alpha, power), divisor, loss, inputs, targets);
  });
}

template <class T>
void focal_loss_sum_backward(View<const T, 0> grad_loss, View<const T, 1> inputs, View<const T, 1> targets,
                             double alpha, double gamma, bool mean, bool needs_grad_targets, View<T, 1> grad_inputs,
                             View<T, 1> grad_targets, Stream stream) {
  constexpr const char* op = "focal_loss_sum_backward";
  using C = compute_t<T>;
  const C scale = mean ? C(1) / static_cast<C>(inputs.size[0]) : C(1);
  with_power<C>(gamma, [&](auto power) {
    using Slope = DenseSlope<T, decltype(power)>;
    using Slopes = DenseSlopes<T, decltype(power)>;
    if (needs_grad_targets) {
      elementwise(op, stream, TimesTotal<T, Slopes>{{alpha, power}, grad_loss.data, scale}, grad_inputs, grad_targets,
                  inputs, targets);
    } else {
      elementwise(op, stream, TimesTotal<T, Slope>{{alpha, power}, grad_loss.data, scale}, grad_inputs, inputs,
                  targets);
    }
  });
}
