#include <opsmith/native.h>

#include "triple.h"

using namespace opsmith;

namespace kernels {
Tensor tripled(const std::vector<Tensor>& xs, const std::vector<double>& factors, const std::string& label) {
  if (factors.size() != 2 || label != "label") fail("the lists did not arrive");
  Tensor out = torch::stable::clone(torch::stable::contiguous(xs[0]));
  triple_in_place(static_cast<double*>(out.mutable_data_ptr()), long(out.numel()));
  return out;
}
}  // namespace kernels
