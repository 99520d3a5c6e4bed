// Focal loss on the CPU, for targets that are probabilities.
#include <opsmith/reduce.h>

#include "focal.h"

using namespace opsmith;
using namespace opsmith::ops::sigmoid_focal_loss;

template <class T>
void focal_loss(View<const T, 1> inputs, View<const T, 1> targets, double alpha, double gamma, View<T, 1> loss) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    elementwise(DenseLoss<compute_t<T>, decltype(power)>(alpha, power), loss, inputs, targets);
  });
}

template <class T>
void focal_loss_backward(View<const T, 1> grad_loss, View<const T, 1> inputs, View<const T, 1> targets, double alpha,
                         double gamma, bool needs_grad_targets, View<T, 1> grad_inputs, View<T, 1> grad_targets) {
  with_power<compute_t<T>>(gamma, [&](auto power) {
    using Slope = DenseSlope<compute_t<T>, decltype(power)>;
    using Slopes = DenseSlopes<compute_t<T>, decltype(power)>;
    if (needs_grad_targets) {
      elementwise(TimesEach<Slopes>{{alpha, power}}, grad_inputs, grad_targets, grad_loss, inputs, targets);
    } else {
      elementwise(TimesEach<Slope>{{alpha, power}}, grad_inputs, grad_loss, inputs, targets);
    }
  });
}

template <class T>
void focal_loss_sum(View<const T, 1> inputs, View<const T, 1> targets, double alpha, double gamma, bool mean,
                    View<T, 0> loss) {
  const double divisor = mean ? static_cast<double>(inputs.size[0]) : 1.0;
  with_power<compute_t<T>>(gamma, [&](auto power) {
    sum_elementwise(DenseLoss<compute_t<T>, decltype(power)>(alpha, power), divisor, loss, inputs, targets);
  });
}

template <class T>
void focal_loss_sum_backward(View<const T, 0> grad_loss, View<const T, 1> inputs, View<const T, 1> targets,
                             double alpha, double gamma, bool mean, bool needs_grad_targets, View<T, 1> grad_inputs,
                             View<T, 1> grad_targets) {
  using C = compute_t<T>;
  const C grad = static_cast<C>(*grad_loss.data) / (mean ? static_cast<C>(inputs.size[0]) : C(1));
  with_power<C>(gamma, [&](auto power) {
    using Slope = DenseSlope<C, decltype(power)>;
    using Slopes = DenseSlopes<C, decltype(power)>;
    if (needs_grad_targets) {
      elementwise(Times<C, Slopes>{{alpha, power}, grad}, grad_inputs, grad_targets, inputs, targets);
    } else {
      elementwise(Times<C, Slope>{{alpha, power}, grad}, grad_inputs, inputs, targets);
    }
  });
}
