// Stable sorting by integer keys, on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace opsmith::ops::nms {
namespace {

template <class Key>
struct Ranked {
  Key key;
  int32_t index;
};

// Sorts n items by ascending key; equal keys stay in order. By bytes from the lowest on, leaving out those that are the
// same in all keys: scores of float take four rounds, class numbers below 256 take one.
template <class Key>
void sort_by_key(std::unique_ptr<Ranked<Key>[]>& items, int64_t n) {
  constexpr int bytes = sizeof(Key);
  int32_t count[bytes][256] = {};
  for (int64_t k = 0; k < n; ++k) {
    for (int byte = 0; byte < bytes; ++byte) ++count[byte][items[k].key >> (8 * byte) & 255];
  }
  std::unique_ptr<Ranked<Key>[]> other(new Ranked<Key>[n]);
  for (int byte = 0; byte < bytes; ++byte) {
    if (n == 0 || count[byte][items[0].key >> (8 * byte) & 255] == n) continue;
    int32_t place[256];
    int32_t next = 0;
    for (int digit = 0; digit < 256; ++digit) {
      place[digit] = next;
      next += count[byte][digit];
    }
    for (int64_t k = 0; k < n; ++k) other[place[items[k].key >> (8 * byte) & 255]++] = items[k];
    std::swap(items, other);
  }
}

}  // namespace
}  // namespace opsmith::ops::nms
