// Non-maximum suppression on a GPU: PyTorch's stable sort and cumulative sum, and the kernels of nms.cu.
#include <opsmith/native.h>

#include <cstdint>

#include "element_type.h"
#include "gpu.h"

using namespace opsmith;

namespace {

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

struct Kept {
  Tensor indices, count;
};

Kept find_kept(const Tensor& boxes, const Tensor& scores, double threshold, const std::optional<Tensor>& idxs,
               int64_t most) {
  const int64_t n = boxes.size(0);
  if (n > INT32_MAX) fail("nms: ", n, " boxes are more than 2^31 - 1");
  void* const stream = current_stream(boxes.get_device_index());
  const auto make = [&](const std::vector<int64_t>& sizes, ScalarType type) {
    return torch::stable::new_empty(boxes, sizes, type);
  };
  const Tensor indices = make({most}, ScalarType::Long), count = make({}, ScalarType::Long);
  const Tensor kept = make({n}, ScalarType::Byte);
  if (n == 0) {
    nms_gpu::write_indices(0, nullptr, nullptr, nullptr, most, data_of<int64_t>(indices), data_of<int64_t>(count),
                           stream);
    return {indices, count};
  }

  const bool is_double = boxes.scalar_type() == ScalarType::Double;
  const Tensor keys = make({n}, is_double ? ScalarType::Long : ScalarType::Int);
  const auto sort = [](const Tensor& values) {
    return call<2>("aten::sort", "stable", values, std::optional<bool>(true), int64_t{0}, false);
  };
  with_element_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    nms_gpu::write_keys(view<const T, 1>(scores), keys.mutable_data_ptr(), stream);
  });
  const Tensor order = sort(keys)[1];
  std::array<Tensor, 2> by_class;
  if (idxs) by_class = sort(call<1>("aten::index_select", "", *idxs, int64_t{0}, order)[0]);

  with_element_type(boxes.scalar_type(), [&](auto element) {
    using T = decltype(element);
    using C = compute_t<T>;
    constexpr ScalarType type = sizeof(C) == 8 ? ScalarType::Double : ScalarType::Float;
    const Tensor sorted = make({n, 4}, type), areas = make({n}, type), removed = make({n}, ScalarType::Byte);
    const Tensor overlaps = make({nms_gpu::tile / 32, nms_gpu::tile}, ScalarType::Int);
    const Tensor kept_boxes = make({nms_gpu::tile, 4}, type), kept_areas = make({nms_gpu::tile}, type);
    const Tensor progress = make({int64_t{sizeof(nms_gpu::Progress)}}, ScalarType::Byte);
    const nms_gpu::Work<C> work{n,
                                data_of<int64_t>(order),
                                idxs ? data_of<int64_t>(by_class[1]) : nullptr,
                                idxs ? data_of<int64_t>(by_class[0]) : nullptr,
                                data_of<C>(sorted),
                                data_of<C>(areas),
                                data_of<uint8_t>(removed),
                                data_of<uint8_t>(kept),
                                data_of<uint32_t>(overlaps),
                                data_of<C>(kept_boxes),
                                data_of<C>(kept_areas),
                                data_of<nms_gpu::Progress>(progress)};
    nms_gpu::suppress(view<const T, 2>(boxes), work, threshold, most, stream);
  });
  const Tensor through = call<1>("aten::cumsum", "", kept, int64_t{0}, std::optional<ScalarType>(ScalarType::Long))[0];
  nms_gpu::write_indices(n, data_of<int64_t>(order), data_of<uint8_t>(kept), data_of<int64_t>(through), most,
                         data_of<int64_t>(indices), data_of<int64_t>(count), stream);
  return {indices, count};
}

}  // namespace

Tensor hard_nms_gpu(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                    const std::optional<Tensor>& idxs) {
  Kept kept = find_kept(boxes, scores, iou_threshold, idxs, boxes.size(0));
  // How long the result is has to be known here: this waits for the GPU.
  const Tensor count =
      call<1>("aten::_to_copy", "", kept.count, std::optional<ScalarType>(), std::optional<torch::headeronly::Layout>(),
              std::optional(torch::stable::Device(torch::headeronly::DeviceType::CPU)), std::optional<bool>(), false,
              std::optional<torch::headeronly::MemoryFormat>())[0];
  // A copy, so that a few indices do not hold the memory of all.
  return torch::stable::clone(torch::stable::narrow(kept.indices, 0, 0, *data_of<int64_t>(count)));
}

std::tuple<Tensor, Tensor> hard_nms_padded_gpu(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                                               int64_t max_output, const std::optional<Tensor>& idxs) {
  if (max_output < 0) fail("nms_padded(): max_output is ", max_output, ", expected 0 or more");
  const Kept kept = find_kept(boxes, scores, iou_threshold, idxs, max_output);
  return {kept.indices, kept.count};
}
