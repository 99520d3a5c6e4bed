// Step 1: the formula, element by element.
#include <opsmith/kernel.h>

#include <cmath>

using namespace opsmith;

template <class T>
void naive(View<const T, 2> scores, View<const T, 1> bias, double scale, View<T, 2> weights) {
  for (int64_t row = 0; row < scores.size[0]; ++row) {
    const auto logit = [&](int64_t i) { return scale * scores(row, i) + bias(i); };
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < scores.size[1]; ++i) largest = std::fmax(largest, logit(i));
    for (int64_t i = 0; i < scores.size[1]; ++i) sum += std::exp(logit(i) - largest);
    for (int64_t i = 0; i < scores.size[1]; ++i) weights(row, i) = T(std::exp(logit(i) - largest) / sum);
  }
}
