// The kernels that stand between a call and an operator's own: one records the gradient, one counts writes.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "gradient.h"

namespace opsmith::bridge {
namespace {

using at::Tensor;
using c10::IValue;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::jit::Stack;

// How autograd holds its nodes: std::shared_ptr up to torch 2.11, c10::intrusive_ptr later.
using NodePointer = decltype(torch::autograd::Edge::function);

template <class T, class Pointer = NodePointer, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    // Autograd's deleteNode frees a deep graph without recursion. Newer versions have none, so it is named where T is
    // known: it is found there through T's base.
    return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), [](T* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
  }
}

// Calls `visit(tensor)` for each tensor of an argument: one, those of a list, or none.
template <class Visit>
void for_each_tensor(const IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorList()) visit(tensor);
  } else if (value.isList()) {  // an empty list of tensors, or one of numbers
    for (const IValue& item : value.toListRef()) {
      if (item.isTensor()) visit(item.toTensor());
    }
  }
}

bool has_tangent(const Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

// What a node keeps of one argument: tensors as autograd keeps them, anything else as it is.
class SavedArgument {
 public:
  explicit SavedArgument(const IValue& given) {
    if (given.isTensor()) {
      kind_ = Kind::tensor;
      tensor_ = SavedVariable(given.toTensor(), /*is_output=*/false);
    } else if (given.isTensorList()) {
      kind_ = Kind::list;
      for (const Tensor& tensor : given.toTensorList()) list_.emplace_back(tensor, /*is_output=*/false);
    } else {
      value_ = given;
    }
  }

  // Raises autograd's own error where the graph was freed, or where the tensor was written to since.
  IValue unpack() const {
    if (kind_ == Kind::tensor) return tensor_.unpack();
    if (kind_ == Kind::value) return value_;
    c10::List<Tensor> list;
    list.reserve(list_.size());
    for (const SavedVariable& tensor : list_) list.push_back(tensor.unpack());
    return list;
  }

  void release() {
    tensor_.reset_data();
    for (SavedVariable& tensor : list_) tensor.reset_data();
  }

 private:
  enum class Kind : uint8_t { value, tensor, list };
  Kind kind_ = Kind::value;
  IValue value_;
  SavedVariable tensor_;
  std::vector<SavedVariable> list_;
};

class OperatorNode : public Node {
 public:
  explicit OperatorNode(const Gradient& gradient) : gradient_(gradient) {}

  std::string name() const override { return gradient_.node_name; }

  // Notes which tensors there are and which of them lead on in the graph; keeps what the backward asks for.
  void record_inputs(c10::ArrayRef<IValue> arguments) {
    torch::autograd::edge_list edges;
    first_tensor_.reserve(arguments.size());
    for (size_t index = 0; index < arguments.size(); ++index) {
      first_tensor_.push_back(static_cast<int32_t>(edge_of_tensor_.size()));
      for_each_tensor(arguments[index], [&](const Tensor& tensor) {
        const bool leads_on = gradient_.differentiable_inputs[index] && tensor.requires_grad();
        edge_of_tensor_.push_back(leads_on ? static_cast<int32_t>(edges.size()) : -1);
        if (leads_on) edges.push_back(torch::autograd::impl::gradient_edge(tensor));
      });
    }
    set_next_edges(std::move(edges));
    inputs_.reserve(gradient_.saved_inputs.size());
    for (const int64_t index : gradient_.saved_inputs) inputs_.emplace_back(arguments[index]);
  }

  void set_history(const NodePointer& self, c10::ArrayRef<IValue> results) {
    for (size_t index = 0; index < results.size(); ++index) {
      const Tensor& result = results[index].toTensor();
      if (gradient_.differentiable_outputs[index] && torch::autograd::isDifferentiableType(result.scalar_type())) {
        torch::autograd::set_history(result, self);
      } else {
        add_input_metadata(Node::undefined_input());
      }
    }
  }

  // Comes last: what is kept of an output includes its history and its tangent.
  void save_outputs(c10::ArrayRef<IValue> results) {
    outputs_.reserve(gradient_.saved_outputs.size());
    for (const int64_t index : gradient_.saved_outputs) {
      outputs_.emplace_back(results[index].toTensor(), /*is_output=*/true);
    }
  }

  variable_list apply(variable_list&& gradients) override {
    std::lock_guard<std::mutex> lock(mutex_);
    variable_list answer(num_outputs());
    bool any = false;
    for (const Tensor& given : gradients) any = any || given.defined();
    if (!any) return answer;
    for (const auto& [input, output] : gradient_.passed) {
      if (needs(input)) answer_for(input, answer) = gradients[output];
    }
    const auto wanted = tensors_to_compute();
    if (wanted.empty()) return answer;
    const bool is_second = gradient_.body_serves_second && c10::GradMode::is_enabled();
    if (gradient_.backward_name.empty() || is_second) {
      through_body(gradients, wanted, answer);
    } else {
      through_backward(gradients, answer);
    }
    return answer;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (SavedArgument& argument : inputs_) argument.release();
    for (SavedVariable& tensor : outputs_) tensor.reset_data();
  }

 private:
  bool is_wanted(int64_t tensor) const {
    const int32_t edge = edge_of_tensor_[tensor];
    return edge >= 0 && task_should_compute_output(edge);
  }

  // The number of an argument's first tensor, or -1 where none was given.
  int64_t tensor_of(int64_t input) const {
    const int64_t first = first_tensor_[input];
    const auto next = static_cast<size_t>(input) + 1;
    const int64_t behind =
        next < first_tensor_.size() ? first_tensor_[next] : static_cast<int64_t>(edge_of_tensor_.size());
    return first < behind ? first : -1;
  }

  // Whether the gradient of an argument that is one tensor is wanted.
  bool needs(int64_t input) const {
    const int64_t tensor = tensor_of(input);
    return tensor >= 0 && is_wanted(tensor);
  }

  Tensor& answer_for(int64_t input, variable_list& answer) const { return answer[edge_of_tensor_[tensor_of(input)]]; }

  // The tensors whose gradients are wanted and are not simply passed on.
  c10::SmallVector<int64_t, 8> tensors_to_compute() const {
    c10::SmallVector<int64_t, 8> wanted;
    const auto& passed = gradient_.passed;
    for (int64_t tensor = 0; tensor < static_cast<int64_t>(edge_of_tensor_.size()); ++tensor) {
      const auto is_this = [&](const auto& pair) { return tensor_of(pair.first) == tensor; };
      if (is_wanted(tensor) && std::none_of(passed.begin(), passed.end(), is_this)) wanted.push_back(tensor);
    }
    return wanted;
  }

  void through_backward(const variable_list& gradients, variable_list& answer) {
    Stack stack;
    stack.reserve(std::max(gradient_.arguments.size(), gradient_.results.size()));
    for (const Argument& argument : gradient_.arguments) stack.push_back(argument_of(argument, gradients));
    gradient_.backward().callBoxed(stack);
    for (size_t index = 0; index < gradient_.results.size(); ++index) {
      const int64_t input = gradient_.results[index];
      if (needs(input)) answer_for(input, answer) = std::move(stack[index]).toTensor();
    }
  }

  IValue argument_of(const Argument& argument, const variable_list& gradients) {
    switch (argument.source) {
      case Source::gradient: {
        const Tensor& given = gradients[argument.index];
        if (given.defined()) return given;
        return argument.optional ? IValue() : IValue(input_metadata(argument.index).zeros_like());
      }
      case Source::input:
        return saved_input(argument.index);
      case Source::output:
        return saved_output(argument.index);
      case Source::needs:
        return needs(argument.index);
    }
    return {};
  }

  IValue saved_input(int64_t index) const {
    for (size_t place = 0; place < inputs_.size(); ++place) {
      if (gradient_.saved_inputs[place] == index) return inputs_[place].unpack();
    }
    return {};
  }

  IValue saved_output(int64_t index) {
    for (size_t place = 0; place < outputs_.size(); ++place) {
      if (gradient_.saved_outputs[place] == index) return outputs_[place].unpack(getptr());
    }
    return {};
  }

  void through_body(const variable_list& gradients, c10::ArrayRef<int64_t> wanted, variable_list& answer) {
    std::vector<IValue> arguments(gradient_.differentiable_inputs.size());
    for (size_t place = 0; place < inputs_.size(); ++place) {
      arguments[gradient_.saved_inputs[place]] = inputs_[place].unpack();
    }
    std::vector<Tensor> found = differentiate_body(gradient_, arguments, gradients, wanted.vec());
    for (size_t place = 0; place < wanted.size(); ++place) {
      answer[edge_of_tensor_[wanted[place]]] = std::move(found[place]);
    }
  }

  const Gradient& gradient_;
  c10::SmallVector<int32_t, 8> first_tensor_;    // for each argument, the number of its first tensor
  c10::SmallVector<int32_t, 8> edge_of_tensor_;  // for each tensor of the arguments, its edge, or -1
  std::vector<SavedArgument> inputs_;            // as gradient_.saved_inputs
  std::vector<SavedVariable> outputs_;           // as gradient_.saved_outputs
};

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

void install(std::unique_ptr<Gradient> gradient) {
  // Kernels live as long as the process: freeing them while static objects are destroyed would end it with a crash.
  const Gradient& kept = *gradient.release();
  const auto colons = kept.operator_name.find("::");
  const std::string space = kept.operator_name.substr(0, colons);
  const std::string name = kept.operator_name.substr(colons + 2);
  const auto implement = [&](c10::DispatchKey key, auto kernel) {
    auto* library = new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);
    library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  };
  implement(c10::DispatchKey::Autograd, std::make_unique<AutogradKernel>(kept));
  if (!kept.mutated.empty()) implement(c10::DispatchKey::ADInplaceOrView, std::make_unique<CountWrites>(kept));
}

}  // namespace opsmith::bridge
