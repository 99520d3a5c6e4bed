// Calls an operator of opsmith's from C++, by the name that its definition gives it.
#include <exception>
#include <iostream>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace {

// The schema is in the library; that these are its types is checked here, once.
at::Tensor lowpass(const at::Tensor& x, const at::Tensor& decay) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smooth::lowpass", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(x, decay);
}

}  // namespace

int main() {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({2, 6}).remainder(5);
  std::cout << lowpass(x, at::tensor({0.5f, 0.875f})) << std::endl;
  try {
    lowpass(x, at::ones({3}));
  } catch (const std::exception& error) {  // what the operator refuses, it says as it does in Python
    std::cout << "refused: " << error.what() << std::endl;
  }
}
