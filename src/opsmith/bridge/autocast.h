// What an operator does inside a region of torch.autocast: the casts that its definition asks for, then the operator.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "gradient.h"

namespace opsmith::bridge {
namespace {

class AutocastKernel : public c10::OperatorKernel {
 public:
  AutocastKernel(Casts casts, c10::DeviceType device) : casts_(std::move(casts)), device_(device) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    // Each operator of a body would make a choice of its own.
    c10::impl::ExcludeDispatchKeyGuard without_autocast(
        c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
    c10::IValue* arguments = stack->data() + (stack->size() - op.schema().arguments().size());
    for (const Casts::Group& group : casts_.groups) {
      if (const auto chosen = choose(group, arguments)) {
        for (const int64_t index : group.arguments) cast(arguments[index], *chosen);
      }
    }
    for (const auto& [index, type] : casts_.pinned) cast(arguments[index], type);
    op.callBoxed(stack);
  }

 private:
  static bool is_low(c10::ScalarType type) { return type == at::kHalf || type == at::kBFloat16 || type == at::kFloat; }

  // The twin of spec/casts.py's choose_type.
  std::optional<c10::ScalarType> choose(const Casts::Group& group, const c10::IValue* arguments) const {
    std::optional<c10::ScalarType> widest;
    bool all_low = true;
    const auto look = [&](const at::Tensor& tensor) {
      const c10::ScalarType type = tensor.scalar_type();
      all_low = all_low && is_low(type);
      // float16 and bfloat16 hold numbers that the other does not.
      widest = !widest || *widest == type ? type : at::kFloat;
    };
    for (const int64_t index : group.arguments) for_each_tensor(arguments[index], look);
    if (!widest || !all_low) return std::nullopt;
    c10::ScalarType wanted = *widest;
    if (casts_.rule == Casts::Rule::float32) wanted = at::kFloat;
    if (casts_.rule == Casts::Rule::low) wanted = at::autocast::get_autocast_dtype(device_);
    for (const c10::ScalarType type : {wanted, *widest}) {
      if (std::find(group.allowed.begin(), group.allowed.end(), type) != group.allowed.end()) return type;
    }
    return std::nullopt;
  }

  void cast(c10::IValue& value, c10::ScalarType type) const {
    // PyTorch keeps the cast of a weight until the region ends.
    const auto one = [&](const at::Tensor& tensor) {
      return tensor.defined() && is_low(tensor.scalar_type()) ? at::autocast::cached_cast(type, tensor, device_)
                                                              : tensor;
    };
    if (value.isTensor()) {
      value = one(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorList()) list.push_back(one(tensor));
      value = std::move(list);
    }
  }

  const Casts casts_;
  const c10::DeviceType device_;
};

}  // namespace
}  // namespace opsmith::bridge
