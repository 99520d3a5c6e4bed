// Soft non-maximum suppression on a GPU: memory, and the kernel of soft_nms.cu.
#include <opsmith/native.h>

#include <cstdint>
#include <string>

#include "result.h"
#include "soft_gpu.h"
#include "soft_native.h"

using namespace opsmith;
using namespace opsmith::ops::nms;

namespace opsmith::ops::nms {
namespace {

struct TakenTensors {
  Tensor dets, inds, count;
};

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

template <class T>
void take(soft::Method method, const Tensor& boxes, const Tensor& scores, const soft::Rules<compute_t<T>>& rules,
          const TakenTensors& taken) {
  using C = compute_t<T>;
  const int64_t n = boxes.size(0);
  const Tensor numbers = empty_like(boxes, {6, n}, sizeof(C) == 8 ? ScalarType::Double : ScalarType::Float);
  const Tensor indices = empty_like(boxes, {n}, ScalarType::Int);
  C* const first = data_of<C>(numbers);
  const soft_gpu::Left<C> left{
      first, first + n, first + 2 * n, first + 3 * n, first + 4 * n, first + 5 * n, data_of<int32_t>(indices)};
  const soft_gpu::Result<T> result{view<T, 2>(taken.dets), data_of<int64_t>(taken.inds), data_of<int64_t>(taken.count)};
  soft_gpu::suppress<T>(method, view<const T, 2>(boxes), view<const T, 1>(scores), rules, left, result,
                        current_stream(boxes.get_device_index()));
}

TakenTensors take(const Tensor& boxes, const Tensor& scores, double iou_threshold, double sigma, double min_score,
                  const std::string& name, int64_t offset, int64_t most) {
  const soft::Method method = method_of(name);
  if (boxes.size(0) > INT32_MAX) fail("soft_nms: ", boxes.size(0), " boxes are more than 2^31 - 1");
  const TakenTensors taken{empty_like(boxes, {most, 5}), empty_like(boxes, {most}, ScalarType::Long),
                           empty_like(boxes, {}, ScalarType::Long)};
  with_floating_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    take<T>(method, boxes, scores, rules_of<compute_t<T>>(iou_threshold, sigma, min_score, offset), taken);
  });
  return taken;
}

}  // namespace
}  // namespace opsmith::ops::nms

std::tuple<Tensor, Tensor> soft_nms_gpu(const Tensor& boxes, const Tensor& scores, double iou_threshold, double sigma,
                                        double min_score, const std::string& method, int64_t offset) {
  const TakenTensors taken = take(boxes, scores, iou_threshold, sigma, min_score, method, offset, boxes.size(0));
  const int64_t length = length_of(taken.count);
  return {first_rows(taken.dets, length), first_rows(taken.inds, length)};
}

std::tuple<Tensor, Tensor, Tensor> soft_nms_padded_gpu(const Tensor& boxes, const Tensor& scores, int64_t max_output,
                                                       double iou_threshold, double sigma, double min_score,
                                                       const std::string& method, int64_t offset) {
  if (max_output < 0) fail("soft_nms_padded(): max_output is ", max_output, ", expected 0 or more");
  const TakenTensors taken = take(boxes, scores, iou_threshold, sigma, min_score, method, offset, max_output);
  return {taken.dets, taken.inds, taken.count};
}
