// Step 3: rows of any type and stride become dense rows of floats, over which loops are vectorised.
#include <opsmith/block.h>

#include <vector>

#include "rows.h"

template <class T>
void vectors(View<const T, 2> scores, View<const T, 1> bias, double scale, View<T, 2> weights) {
  using C = compute_t<T>;
  const int64_t n = scores.size[1];
  std::vector<C> added(n), dense(n), line(n);
  load_block(bias.data, bias.stride[0], n, added.data());
  for (int64_t row = 0; row < scores.size[0]; ++row) {
    load_block(&scores(row, 0), scores.stride[1], n, dense.data());
    const C largest = fill_logits(n, dense.data(), added.data(), C(scale), line.data());
    const C sum = exponentiate(n, largest, line.data());
    multiply(n, 1 / sum, line.data(), dense.data());
    store_block(dense.data(), n, &weights(row, 0), weights.stride[1]);
  }
}
