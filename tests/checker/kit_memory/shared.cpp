#include <opsmith/native.h>

using namespace opsmith;

namespace {

Tensor negated(const Tensor& x) { return call<1>("aten::neg", "", x)[0]; }

}  // namespace

Tensor fresh(const Tensor& x) { return negated(x); }

Tensor contiguous_of(const Tensor& x) { return torch::stable::contiguous(x); }

Tensor first_half(const Tensor& x) {
  Tensor whole = x;  // narrow takes no const
  return torch::stable::narrow(whole, 0, 0, x.size(0) / 2);
}

Tensor kept_buffer(const Tensor& x) {
  static Tensor* buffer = nullptr;
  const Tensor result = negated(x);
  const bool fits = buffer != nullptr && buffer->scalar_type() == x.scalar_type() && buffer->size(0) == x.size(0);
  if (!fits) {
    delete buffer;
    buffer = new Tensor(torch::stable::clone(result));
  }
  return torch::stable::copy_(*buffer, result);
}

std::tuple<Tensor, Tensor> same_twice(const Tensor& x) {
  const Tensor result = negated(x);
  return {result, result};
}

std::tuple<Tensor, Tensor> fresh_twice(const Tensor& x) { return {negated(x), negated(x)}; }
