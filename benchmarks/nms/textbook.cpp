// Non-maximum suppression as it is written in textbooks: sort, then strike out what each kept box overlaps too much.
// benchmarks/nms.py compiles it with -O3 and times it against opsmith's.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

// Writes the kept boxes' numbers; returns how many. boxes is [n, 4], row-major.
extern "C" int64_t textbook_nms(const float* boxes, const float* scores, int64_t n, float threshold, int64_t* keep) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<float> area(n);
  for (int64_t i = 0; i < n; ++i) {
    const float* box = boxes + 4 * i;
    area[i] = (box[2] - box[0]) * (box[3] - box[1]);
  }
  std::vector<char> suppressed(n);
  int64_t count = 0;
  for (int64_t rank = 0; rank < n; ++rank) {
    const int64_t i = order[rank];
    if (suppressed[i]) continue;
    keep[count++] = i;
    const float* a = boxes + 4 * i;
    for (int64_t other = rank + 1; other < n; ++other) {
      const int64_t j = order[other];
      if (suppressed[j]) continue;
      const float* b = boxes + 4 * j;
      const float width = std::max(0.0f, std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const float height = std::max(0.0f, std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const float shared = width * height;
      if (shared / (area[i] + area[j] - shared) > threshold) suppressed[j] = 1;
    }
  }
  return count;
}
