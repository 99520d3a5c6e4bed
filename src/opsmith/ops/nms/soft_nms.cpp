// Soft non-maximum suppression, on the CPU: the best box that is left lowers the scores of those that it overlaps.
#include <opsmith/math.h>
#include <opsmith/native.h>

#include <cmath>
#include <cstdint>
#include <memory>

#include "overlap.h"

using namespace opsmith;

namespace {

enum class Method { naive, linear, gaussian };

Method method_of(const std::string& name) {
  if (name == "naive") return Method::naive;
  if (name == "linear") return Method::linear;
  if (name == "gaussian") return Method::gaussian;
  fail("soft_nms(): method is '", name.c_str(), "', expected 'naive', 'linear' or 'gaussian'");
}

template <class C>
struct Rules {
  C iou_threshold, sigma, min_score;
};

// What a score is multiplied by. An overlap of NaN, which boxes without a finite area have, changes nothing.
template <Method method, class C>
OPSMITH_HOST_DEVICE C weight_of(C overlap, const Rules<C>& rules) {
  if constexpr (method == Method::gaussian)
    return overlap > C(0) ? math::exp(-(overlap * overlap) / rules.sigma) : C(1);
  return overlap >= rules.iou_threshold ? (method == Method::linear ? C(1) - overlap : C(0)) : C(1);
}

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
            const C shared = shared_length(box.x1, box.x2, x1[j], x2[j]) * shared_length(box.y1, box.y2, y1[j], y2[j]);
            const C all = (area + areas[j]) - shared;
            const C lowered = scores[j] * weight_of<method>(shared > C(0) ? shared / all : C(0), rules);
            const bool is_out = keys[j] == out || lowered < rules.min_score;
            scores[j] = lowered;
            const Key key = is_out ? out : score_key(lowered);
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

template <Method method, class T>
std::tuple<Tensor, Tensor> run(const Tensor& boxes, const Tensor& scores, const Rules<compute_t<T>>& rules,
                               int64_t offset) {
  using C = compute_t<T>;
  const View<const T, 2> given = view<const T, 2>(boxes);
  const int64_t n = given.size[0];
  std::unique_ptr<C[]> kept_scores(new C[n]);
  std::unique_ptr<int64_t[]> kept(new int64_t[n]);
  int64_t count = 0;
  Left<C> left(given, view<const T, 1>(scores), static_cast<C>(offset));
  for (; left.any(); ++count) left.template take_best<method>(rules, &kept_scores[count], &kept[count]);

  const Tensor dets = empty_like(boxes, {count, 5}), inds = torch::stable::new_empty(boxes, {count}, ScalarType::Long);
  const View<T, 2> rows = view<T, 2>(dets);
  const View<int64_t, 1> indices = view<int64_t, 1>(inds);
  for (int64_t k = 0; k < count; ++k) {
    for (int corner = 0; corner < 4; ++corner) rows(k, corner) = given(kept[k], corner);
    rows(k, 4) = static_cast<T>(kept_scores[k]);
    indices(k) = kept[k];
  }
  return {dets, inds};
}

}  // namespace

std::tuple<Tensor, Tensor> soft_nms(const Tensor& boxes, const Tensor& scores, double iou_threshold, double sigma,
                                    double min_score, const std::string& method, int64_t offset) {
  const Method chosen = method_of(method);
  std::tuple<Tensor, Tensor> result;
  with_floating_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    const Rules<C> rules{static_cast<C>(iou_threshold), static_cast<C>(sigma), static_cast<C>(min_score)};
    result = chosen == Method::naive    ? run<Method::naive, T>(boxes, scores, rules, offset)
             : chosen == Method::linear ? run<Method::linear, T>(boxes, scores, rules, offset)
                                        : run<Method::gaussian, T>(boxes, scores, rules, offset);
  });
  return result;
}

// Boxes on a GPU are copied to the CPU, and the results back. Each step needs all those before it, and the length of
// the result has to be known here anyway; a launch for each box would take longer than the whole on the CPU.
std::tuple<Tensor, Tensor> soft_nms_gpu(const Tensor& boxes, const Tensor& scores, double iou_threshold, double sigma,
                                        double min_score, const std::string& method, int64_t offset) {
  using torch::stable::Device;
  const auto copy_to = [](const Tensor& tensor, const Device& device) {
    return call<1>("aten::_to_copy", "", tensor, std::optional<ScalarType>(),
                   std::optional<torch::headeronly::Layout>(), std::optional(device), std::optional<bool>(), false,
                   std::optional<torch::headeronly::MemoryFormat>())[0];
  };
  const Device cpu(torch::headeronly::DeviceType::CPU);
  const auto [dets, inds] =
      soft_nms(copy_to(boxes, cpu), copy_to(scores, cpu), iou_threshold, sigma, min_score, method, offset);
  return {copy_to(dets, boxes.device()), copy_to(inds, boxes.device())};
}
