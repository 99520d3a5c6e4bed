// The kernels that stand between a call and an operator's own: one records the gradient, one counts writes, one casts.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "autocast.h"
#include "gradient.h"
#include "node.h"

namespace opsmith::bridge {
namespace {

// The Autograd key's kernel.
class AutogradKernel : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(const Gradient& gradient) : gradient_(gradient) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) const {
    const size_t count = gradient_.differentiable_inputs.size();
    const size_t base = stack->size() - count;
    bool records = false;
    bool tangents = false;
    const bool may_record = c10::GradMode::is_enabled();
    for (size_t index = 0; index < count; ++index) {
      if (!gradient_.differentiable_inputs[index]) continue;
      for_each_tensor((*stack)[base + index], [&](const Tensor& tensor) {
        records = records || (may_record && tensor.requires_grad());
        tangents = tangents || has_tangent(tensor);
      });
    }
    if (!records && !tangents) {
      run(op, keys, stack);
      return;
    }
    if (!gradient_.refusal.empty()) raise_gradient_error(gradient_.refusal);

    NodePointer node;
    OperatorNode* recorded = nullptr;
    if (records) {
      for (const int64_t index : gradient_.asked) (*stack)[base + static_cast<size_t>(index)] = true;
      auto made = make_node<OperatorNode>(gradient_);
      made->record_inputs(c10::ArrayRef<IValue>(*stack).slice(base));
      recorded = made.get();
      node = std::move(made);
    }
    std::vector<IValue> arguments;
    if (tangents) arguments.assign(stack->begin() + static_cast<int64_t>(base), stack->end());
    run(op, keys, stack);
    const auto results = c10::ArrayRef<IValue>(*stack).slice(base);
    if (recorded != nullptr) recorded->set_history(node, results);
    if (tangents) push_forward(arguments, results);
    if (recorded != nullptr) recorded->save_outputs(results);
  }

 private:
  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    at::AutoDispatchBelowADInplaceOrView guard;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }

  // Forward-mode AD: the values are the kernel's, the tangents those of the body.
  void push_forward(const std::vector<IValue>& arguments, c10::ArrayRef<IValue> results) const {
    const std::vector<Tensor> body = run_body(gradient_, arguments);
    for (size_t index = 0; index < results.size(); ++index) {
      if (!gradient_.differentiable_outputs[index]) continue;
      const Tensor& tangent = body[index]._fw_grad(/*level=*/0);
      if (tangent.defined()) results[index].toTensor()._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
    }
  }

  const Gradient& gradient_;
};

// The ADInplaceOrView key's kernel of an operator that writes to its arguments: autograd compares versions to notice
// that a tensor which it saved was written to since.
class CountWrites : public c10::OperatorKernel {
 public:
  explicit CountWrites(const Gradient& gradient) : gradient_(gradient) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) const {
    const size_t base = stack->size() - gradient_.differentiable_inputs.size();
    std::vector<Tensor> written;
    for (const int64_t index : gradient_.mutated) {
      for_each_tensor((*stack)[base + index], [&](const Tensor& tensor) { written.push_back(tensor); });
    }
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
    }
    for (const Tensor& tensor : written) torch::autograd::impl::bump_version(tensor);
  }

 private:
  const Gradient& gradient_;
};

}  // namespace

const c10::OperatorHandle& Gradient::backward() const {
  std::call_once(found_,
                 [this] { backward_ = c10::Dispatcher::singleton().findSchemaOrThrow(backward_name.c_str(), ""); });
  return *backward_;
}

namespace {

// Registers a kernel that lives as long as the process: freeing it while static objects are destroyed would end the
// process with a crash.
template <class Kernel>
void implement(const std::string& operator_name, c10::DispatchKey key, std::unique_ptr<Kernel> kernel) {
  const auto colons = operator_name.find("::");
  auto* library = new torch::Library(torch::Library::IMPL, operator_name.substr(0, colons), key, __FILE__, __LINE__);
  library->impl(operator_name.substr(colons + 2).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
}

}  // namespace

void install(std::unique_ptr<Gradient> gradient) {
  const Gradient& kept = *gradient.release();
  implement(kept.operator_name, c10::DispatchKey::Autograd, std::make_unique<AutogradKernel>(kept));
  if (!kept.mutated.empty()) {
    implement(kept.operator_name, c10::DispatchKey::ADInplaceOrView, std::make_unique<CountWrites>(kept));
  }
}

void install(const std::string& operator_name, const Casts& casts) {
  implement(operator_name, c10::DispatchKey::AutocastCPU, std::make_unique<AutocastKernel>(casts, at::kCPU));
  implement(operator_name, c10::DispatchKey::AutocastCUDA, std::make_unique<AutocastKernel>(casts, at::kCUDA));
}

}  // namespace opsmith::bridge
