// Non-maximum suppression on the CPU: sort by score, split by class, keep greedily.
#include <opsmith/native.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "greedy.h"
#include "order.h"
#include "overlap.h"

using namespace opsmith;
using namespace opsmith::ops::nms;

namespace opsmith::ops::nms {
namespace {

template <class Key>
using Items = std::unique_ptr<Ranked<Key>[]>;

// Box numbers by decreasing score, ties by number.
template <class T>
auto sort_by_score(const View<const T, 1>& scores) {
  using C = compute_t<T>;
  using Key = decltype(score_key(C()));
  const int64_t n = scores.size[0];
  Items<Key> items(new Ranked<Key>[n]);
  for (int64_t k = 0; k < n; ++k) items[k] = {score_key(static_cast<C>(scores(k))), static_cast<int32_t>(k)};
  sort_by_key(items, n);
  return items;
}

// Ranks by class; within a class in order. None without classes: all boxes are in one, and their ranks in order.
template <class Key>
Items<uint64_t> sort_by_class(const Items<Key>& ranked, int64_t n, const View<const int64_t, 1>& classes) {
  if (!classes) return nullptr;
  Items<uint64_t> items(new Ranked<uint64_t>[n]);
  for (int64_t rank = 0; rank < n; ++rank) {
    items[rank] = {static_cast<uint64_t>(classes(ranked[rank].index)), static_cast<int32_t>(rank)};
  }
  sort_by_key(items, n);
  return items;
}

// Writes the numbers of the kept boxes in decreasing order of their scores, `most` at most; returns how many.
template <class T>
int64_t find_kept(const View<const T, 2>& boxes, const View<const T, 1>& scores, double threshold,
                  const View<const int64_t, 1>& classes, int64_t most, int64_t* kept_boxes) {
  using C = compute_t<T>;
  const int64_t n = boxes.size[0];
  const auto ranked = sort_by_score(scores);
  const Items<uint64_t> grouped = sort_by_class(ranked, n, classes);

  const auto rank_at = [&](int64_t k) { return grouped ? static_cast<int64_t>(grouped[k].index) : k; };

  const OwnedBoxes<C> memory(n);
  const Boxes<C> sorted = memory.view();
  std::unique_ptr<int64_t[]> begin_of_class(new int64_t[n + 1]);
  int64_t class_count = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t box = ranked[rank_at(k)].index;
    const Box<C> corners{static_cast<C>(boxes(box, 0)), static_cast<C>(boxes(box, 1)), static_cast<C>(boxes(box, 2)),
                         static_cast<C>(boxes(box, 3))};
    sorted.set(k, corners, area_of(corners));
    if (k == 0 || (grouped && grouped[k].key != grouped[k - 1].key)) begin_of_class[class_count++] = k;
  }
  begin_of_class[class_count] = n;

  // Whoever has a class's first box has the class. So tasks have like numbers of boxes, however unlike the classes are.
  // And they are few: PyTorch's threads wait for one another at the end without giving their processors away, so where
  // there are as many threads as processors, and one processor has something else to do, all wait for that to end, a
  // time slice of some milliseconds.
  constexpr int64_t boxes_in_task = 4096;  // 100 us and more
  std::unique_ptr<uint8_t[]> kept(new uint8_t[n]);
  const int64_t* const begins = begin_of_class.get();
  parallel_for(0, n, boxes_in_task, [&](int64_t first, int64_t last) {
    Keeper<C> keeper(threshold);
    for (const int64_t* begin = std::lower_bound(begins, begins + class_count, first); *begin < last; ++begin) {
      // A class of its own may stop at `most`; of several it is not known before which have the higher scores.
      keeper.keep(sorted.from(*begin), begin[1] - *begin, class_count == 1 ? most : n, kept.get() + *begin);
    }
  });

  std::unique_ptr<uint8_t[]> kept_by_rank(new uint8_t[n]);
  for (int64_t k = 0; k < n; ++k) kept_by_rank[rank_at(k)] = kept[k];
  int64_t count = 0;
  for (int64_t rank = 0; rank < n && count < most; ++rank) {
    if (kept_by_rank[rank]) kept_boxes[count++] = ranked[rank].index;
  }
  return count;
}

int64_t find_kept(const Tensor& boxes, const Tensor& scores, double threshold, const std::optional<Tensor>& idxs,
                  int64_t most, int64_t* kept_boxes) {
  if (boxes.size(0) > INT32_MAX) fail("nms(): there are ", boxes.size(0), " boxes, expected at most 2^31 - 1");
  int64_t count = 0;
  with_floating_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    count = find_kept<T>(view<const T, 2>(boxes), view<const T, 1>(scores), threshold, view<const int64_t, 1>(idxs),
                         most, kept_boxes);
  });
  return count;
}

}  // namespace
}  // namespace opsmith::ops::nms

Tensor hard_nms_cpu(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                    const std::optional<Tensor>& idxs) {
  const int64_t n = boxes.size(0);
  std::unique_ptr<int64_t[]> kept(new int64_t[n]);
  const int64_t count = find_kept(boxes, scores, iou_threshold, idxs, n, kept.get());
  const Tensor keep = empty_like(boxes, {count}, ScalarType::Long);
  std::copy_n(kept.get(), count, view<int64_t, 1>(keep).data);
  return keep;
}

std::tuple<Tensor, Tensor> hard_nms_padded_cpu(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                                               int64_t max_output, const std::optional<Tensor>& idxs) {
  if (max_output < 0) fail("nms_padded(): max_output is ", max_output, ", expected 0 or more");
  const Tensor indices = empty_like(boxes, {max_output}, ScalarType::Long);
  const Tensor count = empty_like(boxes, {}, ScalarType::Long);
  int64_t* const kept = view<int64_t, 1>(indices).data;
  const int64_t found = find_kept(boxes, scores, iou_threshold, idxs, max_output, kept);
  std::fill(kept + found, kept + max_output, int64_t{-1});
  *view<int64_t, 0>(count).data = found;
  return {indices, count};
}
