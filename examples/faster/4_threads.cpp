// Step 4: the rows are shared among PyTorch's threads.
#include <opsmith/block.h>

#include <vector>

#include "rows.h"

template <class T>
void threads(View<const T, 2> scores, View<const T, 1> bias, double scale, View<T, 2> weights) {
  using C = compute_t<T>;
  const int64_t n = scores.size[1];
  std::vector<C> added(n);
  load_block(bias.data, bias.stride[0], n, added.data());
  const int64_t grain = 1 + 16384 / (n + 1);  // rows for some 10 us
  parallel_for(0, scores.size[0], grain, [&](int64_t begin, int64_t end) {
    std::vector<C> dense(n), line(n);
    for (int64_t row = begin; row < end; ++row) {
      load_block(&scores(row, 0), scores.stride[1], n, dense.data());
      const C largest = fill_logits(n, dense.data(), added.data(), C(scale), line.data());
      const C sum = exponentiate(n, largest, line.data());
      multiply(n, 1 / sum, line.data(), dense.data());
      store_block(dense.data(), n, &weights(row, 0), weights.stride[1]);
    }
  });
}
