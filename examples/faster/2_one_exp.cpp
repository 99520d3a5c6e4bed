// Step 2: in float, with one exponential an element and one division a row.
#include <opsmith/kernel.h>

#include <cmath>
#include <vector>

using namespace opsmith;

template <class T>
void one_exp(View<const T, 2> scores, View<const T, 1> bias, double scale, View<T, 2> weights) {
  using C = compute_t<T>;
  const int64_t n = scores.size[1];
  std::vector<C> line(n);
  for (int64_t row = 0; row < scores.size[0]; ++row) {
    C largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      line[i] = C(scale) * scores(row, i) + bias(i);
      if (line[i] > largest) largest = line[i];
    }
    for (int64_t i = 0; i < n; ++i) {
      line[i] = std::exp(line[i] - largest);
      sum += line[i];
    }
    const C factor = 1 / sum;
    for (int64_t i = 0; i < n; ++i) weights(row, i) = T(line[i] * factor);
  }
}
