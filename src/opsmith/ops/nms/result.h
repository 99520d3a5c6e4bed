// The results of a suppression on a GPU, whose length the GPU finds.
#pragma once

#include <opsmith/native.h>

#include <cstdint>

namespace opsmith::ops::nms {
namespace {

// The length, from a tensor of one element. This waits for the GPU.
inline int64_t length_of(const Tensor& count) {
  int64_t length = 0;
  if (aoti_torch_item_int64(count.get(), &length) != 0) {
    torch_failed("the number of boxes that are kept cannot be read");
  }
  return length;
}

// The first rows of a result that has room for all boxes. A copy where that frees more than 64 KB, so that a few
// indices do not hold the memory of many boxes; for less everybody would wait, because the GPU has gone idle.
inline Tensor first_rows(Tensor all, int64_t length) {
  const int64_t row_bytes = all.stride(0) * static_cast<int64_t>(all.element_size());
  const Tensor rows = torch::stable::narrow(all, 0, 0, length);
  return (all.size(0) - length) * row_bytes > 65536 ? torch::stable::clone(rows) : rows;
}

}  // namespace
}  // namespace opsmith::ops::nms
