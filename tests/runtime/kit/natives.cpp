#include <opsmith/native.h>

#include <string>

using namespace opsmith;

std::tuple<Tensor, Tensor> positives(const Tensor& x, std::optional<int64_t> most) {
  // Through PyTorch, so that every element type works.
  auto zero = call<1>("aten::zeros_like", "", x, std::optional<ScalarType>(),
                      std::optional<torch::headeronly::Layout>(), std::optional<torch::stable::Device>(),
                      std::optional<bool>(), std::optional<torch::headeronly::MemoryFormat>())[0];
  auto mask = call<1>("aten::gt", "Tensor", x, zero)[0];
  auto places = call<1>("aten::nonzero", "", mask)[0];
  places = call<1>("aten::squeeze", "dim", places, int64_t{1})[0];
  if (most && *most < places.size(0)) places = torch::stable::contiguous(torch::stable::narrow(places, 0, 0, *most));
  return {call<1>("aten::index_select", "", x, int64_t{0}, places)[0], places};
}

Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  return call<1>("aten::linear", "", x, weight, bias)[0];
}

Tensor lie(const Tensor& x, const std::string& what) {
  if (what == "size") return opsmith::empty_like(x, {x.size(0) + 1});
  if (what == "rank") return opsmith::empty_like(x, {x.size(0), 1});
  if (what == "dtype") return call<1>("aten::isnan", "", x)[0];
  if (what == "error") return call<1>("aten::mm", "", x, x)[0];
  if (what == "undefined") return Tensor();
  if (what == "throw") fail("told to fail with ", 3, " words");
  return torch::stable::clone(x);
}

void increment_(const Tensor& x) {
  auto* data = static_cast<int64_t*>(x.mutable_data_ptr());
  for (int64_t n = 0; n < x.numel(); ++n) data[n * x.stride(0)] += 1;
}

std::tuple<Tensor, Tensor> halves(const Tensor& x, bool lie) {
  using torch::stable::narrow;
  const int64_t half = x.size(-1) / 2, last = x.dim() - 1;
  Tensor whole = x;  // narrow takes no const
  Tensor first = narrow(whole, last, 0, half);
  Tensor second = narrow(whole, last, half, lie && x.dim() == 2 ? half - 1 : half);
  if (lie && x.dim() == 3) second = narrow(second, 0, 0, 1);
  return {torch::stable::clone(torch::stable::contiguous(first)),
          torch::stable::clone(torch::stable::contiguous(second))};
}
