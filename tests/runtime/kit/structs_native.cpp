#include <opsmith/native.h>

using namespace opsmith;

namespace kit {

struct Window {
  int64_t size;
  double gain;
  bool is_negated;
  std::string name;
  std::optional<int64_t> step;
  std::optional<double> limit;
  std::optional<bool> is_shifted;
};

Tensor scaled(const Tensor& x, const Window& window) {
  double factor = window.gain + static_cast<double>(window.size) + (window.is_negated ? 1 : 0);
  factor += window.step ? static_cast<double>(*window.step) : -100;
  factor += window.is_shifted ? (*window.is_shifted ? 64 : 0) : -300;
  factor += static_cast<double>(window.name.size()) + window.limit.value_or(0);
  Tensor y = torch::stable::clone(torch::stable::contiguous(x));
  auto* data = static_cast<double*>(y.mutable_data_ptr());
  for (int64_t n = 0; n < y.numel(); ++n) data[n] *= factor;
  return y;
}

}  // namespace kit
