// Soft non-maximum suppression, on the CPU: the best box that is left lowers the scores of those that it overlaps.
#include <opsmith/native.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "soft.h"
#include "soft_native.h"

using namespace opsmith;
using namespace opsmith::ops::nms;

namespace opsmith::ops::nms {
namespace {

using soft::Method;
using soft::Rules;

// The boxes that are left, in the order of their numbers, in arrays for vectors.
template <class C>
class Left {
  using Key = decltype(score_key(C()));

 public:
  static constexpr Key out = static_cast<Key>(-1);  // no score has this key

  template <class T>
  Left(const View<const T, 2>& boxes, const View<const T, 1>& scores, C offset)
      : count_(boxes.size[0]),
        numbers_(new C[6 * count_]),
        keys_(new Key[count_]),
        indices_(new int64_t[count_]),
        x1_(numbers_.get()),
        y1_(x1_ + count_),
        x2_(y1_ + count_),
        y2_(x2_ + count_),
        area_(y2_ + count_),
        score_(area_ + count_) {
    for (int64_t k = 0; k < count_; ++k) {
      x1_[k] = static_cast<C>(boxes(k, 0)), y1_[k] = static_cast<C>(boxes(k, 1));
      x2_[k] = static_cast<C>(boxes(k, 2)) + offset, y2_[k] = static_cast<C>(boxes(k, 3)) + offset;
      area_[k] = area_of(Box<C>{x1_[k], y1_[k], x2_[k], y2_[k]});
      score_[k] = static_cast<C>(scores(k));
      keys_[k] = score_key(score_[k]);
      indices_[k] = k;
      best_ = keys_[k] < best_ ? keys_[k] : best_;
    }
  }

  bool any() const { return best_ != out; }

  // Takes the box of the highest score, of several the first, out of those that are left, and lowers the others'
  // scores.
  template <Method method>
  void take_best(const Rules<C>& rules, C* score, int64_t* index) {
    int64_t k = 0;
    while (keys_[k] != best_) ++k;
    *score = score_[k], *index = indices_[k];
    keys_[k] = out;
    const Box<C> box{x1_[k], y1_[k], x2_[k], y2_[k]};
    const C area = area_[k];
    int64_t gone = 0;
    with_best_isa(
        [&](int64_t n, const C* __restrict__ x1, const C* __restrict__ y1, const C* __restrict__ x2,
            const C* __restrict__ y2, const C* __restrict__ areas, C* __restrict__ scores, Key* __restrict__ keys) {
          Key best = out;
          int64_t outside = 0;
          for (int64_t j = 0; j < n; ++j) {
            const C score = lowered<method>(box, area, Box<C>{x1[j], y1[j], x2[j], y2[j]}, areas[j], scores[j], rules);
            const bool is_out = keys[j] == out || score < rules.min_score;
            scores[j] = score;
            const Key key = is_out ? out : score_key(score);
            keys[j] = key;
            best = key < best ? key : best;
            outside += is_out;
          }
          best_ = best;
          gone = outside;
        },
        count_, x1_, y1_, x2_, y2_, area_, score_, keys_.get());
    if (2 * gone > count_) drop();
  }

 private:
  // Closes the gaps, so that the time goes with the boxes that are left.
  void drop() {
    int64_t to = 0;
    for (int64_t k = 0; k < count_; ++k) {
      if (keys_[k] == out) continue;
      for (C* numbers : {x1_, y1_, x2_, y2_, area_, score_}) numbers[to] = numbers[k];
      keys_[to] = keys_[k];
      indices_[to++] = indices_[k];
    }
    count_ = to;
  }

  int64_t count_;
  std::unique_ptr<C[]> numbers_;
  std::unique_ptr<Key[]> keys_;
  std::unique_ptr<int64_t[]> indices_;
  C *x1_, *y1_, *x2_, *y2_, *area_, *score_;
  Key best_ = out;
};

// What is taken out, in order: numbers of boxes and their lowered scores.
template <class C>
struct Taken {
  explicit Taken(int64_t most) : scores(new C[most]), indices(new int64_t[most]) {}

  int64_t count = 0;
  std::unique_ptr<C[]> scores;
  std::unique_ptr<int64_t[]> indices;
};

template <Method method, class C>
void take(Left<C>& left, const Rules<C>& rules, int64_t most, Taken<C>& taken) {
  for (; left.any() && taken.count < most; ++taken.count) {
    left.template take_best<method>(rules, &taken.scores[taken.count], &taken.indices[taken.count]);
  }
}

template <class T>
Taken<compute_t<T>> take(Method method, const View<const T, 2>& boxes, const View<const T, 1>& scores,
                         const Rules<compute_t<T>>& rules, int64_t most) {
  using C = compute_t<T>;
  Taken<C> taken(std::min(most, boxes.size[0]));
  Left<C> left(boxes, scores, rules.offset);
  if (method == Method::naive) take<Method::naive>(left, rules, most, taken);
  if (method == Method::linear) take<Method::linear>(left, rules, most, taken);
  if (method == Method::gaussian) take<Method::gaussian>(left, rules, most, taken);
  return taken;
}

template <class T>
void write(const Taken<compute_t<T>>& taken, const View<const T, 2>& boxes, const View<T, 2>& dets,
           const View<int64_t, 1>& inds) {
  for (int64_t k = 0; k < taken.count; ++k) {
    for (int corner = 0; corner < 4; ++corner) dets(k, corner) = boxes(taken.indices[k], corner);
    dets(k, 4) = static_cast<T>(taken.scores[k]);
    inds(k) = taken.indices[k];
  }
}

}  // namespace
}  // namespace opsmith::ops::nms

std::tuple<Tensor, Tensor> soft_nms_cpu(const Tensor& boxes, const Tensor& scores, double iou_threshold, double sigma,
                                        double min_score, const std::string& method, int64_t offset) {
  const Method chosen = method_of(method);
  std::tuple<Tensor, Tensor> result;
  with_floating_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const View<const T, 2> given = view<const T, 2>(boxes);
    const auto taken = take<T>(chosen, given, view<const T, 1>(scores),
                               rules_of<compute_t<T>>(iou_threshold, sigma, min_score, offset), given.size[0]);
    result = {empty_like(boxes, {taken.count, 5}), empty_like(boxes, {taken.count}, ScalarType::Long)};
    write<T>(taken, given, view<T, 2>(std::get<0>(result)), view<int64_t, 1>(std::get<1>(result)));
  });
  return result;
}

std::tuple<Tensor, Tensor, Tensor> soft_nms_padded_cpu(const Tensor& boxes, const Tensor& scores, int64_t max_output,
                                                       double iou_threshold, double sigma, double min_score,
                                                       const std::string& method, int64_t offset) {
  const Method chosen = method_of(method);
  if (max_output < 0) fail("soft_nms_padded(): max_output is ", max_output, ", expected 0 or more");
  const Tensor dets = empty_like(boxes, {max_output, 5});
  const Tensor inds = empty_like(boxes, {max_output}, ScalarType::Long);
  const Tensor count = empty_like(boxes, {}, ScalarType::Long);
  with_floating_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    const View<const T, 2> given = view<const T, 2>(boxes);
    const auto taken = take<T>(chosen, given, view<const T, 1>(scores),
                               rules_of<C>(iou_threshold, sigma, min_score, offset), max_output);
    const View<T, 2> rows = view<T, 2>(dets);
    const View<int64_t, 1> indices = view<int64_t, 1>(inds);
    std::fill_n(rows.data, 5 * max_output, static_cast<T>(C(0)));
    std::fill_n(indices.data, max_output, int64_t{-1});
    write<T>(taken, given, rows, indices);
    *view<int64_t, 0>(count).data = taken.count;
  });
  return {dets, inds, count};
}
