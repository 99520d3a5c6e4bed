// Correct native kernels: a product by PyTorch's own, and an output whose size depends on the data.
#include <opsmith/native.h>

using namespace opsmith;

Tensor product(const Tensor& x, const Tensor& y) { return call<1>("aten::mm", "", x, y)[0]; }

Tensor over(const Tensor& x) {
  // Where a row's first number is larger than its last one: as nms, it keeps some rows.
  const Tensor wide = call<1>("aten::gt", "Tensor", call<1>("aten::select", "int", x, int64_t{1}, int64_t{0})[0],
                              call<1>("aten::select", "int", x, int64_t{1}, int64_t{-1})[0])[0];
  const Tensor places = call<1>("aten::squeeze", "dim", call<1>("aten::nonzero", "", wide)[0], int64_t{1})[0];
  return call<1>("aten::index_select", "", x, int64_t{0}, places)[0];
}
