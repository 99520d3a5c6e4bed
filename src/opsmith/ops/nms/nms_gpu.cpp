// Non-maximum suppression on a GPU: PyTorch's stable sort and cumulative sum, and the kernels of order.cu and nms.cu.
#include <opsmith/native.h>

#include <cstdint>

#include "nms_gpu.h"
#include "result.h"

using namespace opsmith;
using namespace opsmith::ops::nms;

namespace opsmith::ops::nms {
namespace {

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Arrays one after another in one piece of memory, since each allocation costs as much as a launch. Without memory it
// finds out how much is needed.
class Pieces {
 public:
  explicit Pieces(uint8_t* memory) : memory_(memory) {}

  template <class T>
  T* take(int64_t count) {
    T* const piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + size_);
    size_ += (count * static_cast<int64_t>(sizeof(T)) + 31) / 32 * 32;  // a box of doubles is loaded at once
    return piece;
  }
  int64_t size() const { return size_; }

 private:
  uint8_t* memory_;
  int64_t size_ = 0;
};

template <class C>
hard_gpu::Work<C> plan(Pieces& pieces, int64_t n, bool has_classes, const Tensor& indices, const Tensor& count) {
  hard_gpu::Work<C> work{};
  work.n = n;
  work.boxes = pieces.take<C>(4 * n);
  work.areas = pieces.take<C>(n);
  work.kept_boxes = pieces.take<C>(4 * hard_gpu::tile);
  work.kept_areas = pieces.take<C>(hard_gpu::tile);
  work.overlaps = pieces.take<uint32_t>(hard_gpu::tile / 32 * hard_gpu::tile);
  work.removed = pieces.take<uint8_t>(n);
  work.progress = pieces.take<hard_gpu::Progress>(1);
  // Where there are more boxes, these come from a sort.
  if (n <= hard_gpu::most_to_count) work.order = pieces.take<int64_t>(n);
  if (n <= hard_gpu::most_to_count && has_classes) {
    work.by_class = pieces.take<int64_t>(n);
    work.classes = pieces.take<int64_t>(n);
  }
  work.indices = data_of<int64_t>(indices);
  work.count = data_of<int64_t>(count);
  work.most = indices.size(0);
  return work;
}

std::array<Tensor, 2> sort(const Tensor& values) {
  return call<2>("aten::sort", "stable", values, std::optional<bool>(true), int64_t{0}, false);
}

struct Kept {
  Tensor indices, count;
};

template <class T>
void find_kept(const Tensor& boxes, const Tensor& scores, double threshold, const std::optional<Tensor>& idxs,
               const Kept& result) {
  using C = compute_t<T>;
  const int64_t n = boxes.size(0);
  void* const stream = current_stream(boxes.get_device_index());
  Pieces none(nullptr);
  plan<C>(none, n, idxs.has_value(), result.indices, result.count);
  const Tensor memory = empty_like(boxes, {none.size()}, ScalarType::Byte);
  Pieces pieces(data_of<uint8_t>(memory));
  hard_gpu::Work<C> work = plan<C>(pieces, n, idxs.has_value(), result.indices, result.count);
  Tensor kept;
  if (idxs) {
    kept = empty_like(boxes, {n}, ScalarType::Byte);
    work.kept = data_of<uint8_t>(kept);
  }
  std::array<Tensor, 2> order, by_class;  // these hold the memory of the sorts
  if (n <= hard_gpu::most_to_count) {
    hard_gpu::order_and_gather<T>(view<const T, 2>(boxes), view<const T, 1>(scores), view<const int64_t, 1>(idxs), work,
                                  stream);
  } else {
    const Tensor keys = empty_like(boxes, {n}, sizeof(C) == 8 ? ScalarType::Long : ScalarType::Int);
    hard_gpu::write_keys<T>(view<const T, 1>(scores), keys.mutable_data_ptr(), stream);
    order = sort(keys);
    work.order = data_of<int64_t>(order[1]);
    if (idxs) {
      by_class = sort(call<1>("aten::index_select", "", *idxs, int64_t{0}, order[1])[0]);
      work.classes = data_of<int64_t>(by_class[0]);
      work.by_class = data_of<int64_t>(by_class[1]);
    }
    hard_gpu::gather<T>(view<const T, 2>(boxes), work, stream);
  }
  hard_gpu::suppress(work, threshold, stream);
  if (idxs && n > 0) {
    const Tensor through =
        call<1>("aten::cumsum", "", kept, int64_t{0}, std::optional<ScalarType>(ScalarType::Long))[0];
    hard_gpu::write_indices(work, data_of<int64_t>(through), stream);
  }
}

Kept find_kept(const Tensor& boxes, const Tensor& scores, double threshold, const std::optional<Tensor>& idxs,
               int64_t most) {
  if (boxes.size(0) > INT32_MAX) fail("nms(): there are ", boxes.size(0), " boxes, expected at most 2^31 - 1");
  const Kept result{empty_like(boxes, {most}, ScalarType::Long), empty_like(boxes, {}, ScalarType::Long)};
  with_floating_type(boxes.scalar_type(),
                     [&](auto element) { find_kept<decltype(element)>(boxes, scores, threshold, idxs, result); });
  return result;
}

}  // namespace
}  // namespace opsmith::ops::nms

Tensor hard_nms_gpu(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                    const std::optional<Tensor>& idxs) {
  const Kept kept = find_kept(boxes, scores, iou_threshold, idxs, boxes.size(0));
  return first_rows(kept.indices, length_of(kept.count));
}

std::tuple<Tensor, Tensor> hard_nms_padded_gpu(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                                               int64_t max_output, const std::optional<Tensor>& idxs) {
  if (max_output < 0) fail("nms_padded(): max_output is ", max_output, ", expected 0 or more");
  const Kept kept = find_kept(boxes, scores, iou_threshold, idxs, max_output);
  return {kept.indices, kept.count};
}
