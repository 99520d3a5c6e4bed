// The node that stands for an operator's call in the graph of autograd.
//
// A header, although it is included once: PyTorch's headers are most of what the bridge's build takes, and each file
// more would read them again.
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

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

bool any_defined(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) { return tensor.defined(); });
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

// The arguments that a node keeps, for one backward pass: unpacked when first asked for, and once, for a checkpoint
// gives nothing back twice.
class UnpackedArguments {
 public:
  UnpackedArguments(const std::vector<int64_t>& indices, const std::vector<SavedArgument>& saved)
      : indices_(indices), saved_(saved), values_(saved.size()) {}

  // Of the operator's arguments; None for one that is not kept.
  IValue operator[](int64_t index) {
    const auto found = std::find(indices_.begin(), indices_.end(), index);
    if (found == indices_.end()) return {};
    const auto slot = static_cast<size_t>(found - indices_.begin());
    if (!values_[slot]) values_[slot] = saved_[slot].unpack();
    return *values_[slot];
  }

 private:
  const std::vector<int64_t>& indices_;
  const std::vector<SavedArgument>& saved_;
  c10::SmallVector<std::optional<IValue>, 8> values_;
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
    if (!any_defined(gradients)) return answer;
    UnpackedArguments inputs(gradient_.saved_inputs, inputs_);
    for (const auto& [input, output] : gradient_.passed) {
      if (needs(input)) answer_for(input, answer) = gradients[output];
    }
    if (gradient_.backward_name.empty()) {
      through_body(gradients, tensors_to_compute(), inputs, answer);
      return answer;
    }
    // A gradient of an output that only the backward sees arrives where a gradient is itself differentiated.
    variable_list hidden(gradients.size());
    for (const int64_t output : gradient_.body_outputs) std::swap(hidden[output], gradients[output]);
    if (any_defined(gradients) && !tensors_to_compute().empty()) through_backward(gradients, inputs, answer);
    if (any_defined(hidden)) through_body(hidden, tensors_wanted(), inputs, answer);
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

  c10::SmallVector<int64_t, 8> tensors_wanted() const {
    c10::SmallVector<int64_t, 8> wanted;
    for (int64_t tensor = 0; tensor < static_cast<int64_t>(edge_of_tensor_.size()); ++tensor) {
      if (is_wanted(tensor)) wanted.push_back(tensor);
    }
    return wanted;
  }

  // Those of them whose gradients are not simply passed on.
  c10::SmallVector<int64_t, 8> tensors_to_compute() const {
    c10::SmallVector<int64_t, 8> wanted = tensors_wanted();
    for (const auto& pair : gradient_.passed) {
      wanted.erase(std::remove(wanted.begin(), wanted.end(), tensor_of(pair.first)), wanted.end());
    }
    return wanted;
  }

  void through_backward(const variable_list& gradients, UnpackedArguments& inputs, variable_list& answer) {
    Stack stack;
    stack.reserve(std::max(gradient_.arguments.size(), gradient_.results.size()));
    for (const Argument& argument : gradient_.arguments) stack.push_back(argument_of(argument, gradients, inputs));
    gradient_.backward().callBoxed(stack);
    for (size_t index = 0; index < gradient_.results.size(); ++index) {
      const int64_t input = gradient_.results[index];
      if (needs(input)) answer_for(input, answer) = std::move(stack[index]).toTensor();
    }
  }

  IValue argument_of(const Argument& argument, const variable_list& gradients, UnpackedArguments& inputs) {
    switch (argument.source) {
      case Source::gradient: {
        const Tensor& given = gradients[argument.index];
        if (given.defined()) return given;
        return argument.optional ? IValue() : IValue(input_metadata(argument.index).zeros_like());
      }
      case Source::input:
        return inputs[argument.index];
      case Source::output:
        return saved_output(argument.index);
      case Source::needs:
        return needs(argument.index);
    }
    return {};
  }

  IValue saved_output(int64_t index) {
    for (size_t slot = 0; slot < outputs_.size(); ++slot) {
      if (gradient_.saved_outputs[slot] == index) return outputs_[slot].unpack(getptr());
    }
    return {};
  }

  // Adds the gradients of the body to the answer.
  void through_body(const variable_list& gradients, c10::ArrayRef<int64_t> wanted, UnpackedArguments& inputs,
                    variable_list& answer) {
    if (wanted.empty()) return;
    std::vector<IValue> arguments(gradient_.differentiable_inputs.size());
    for (const int64_t index : gradient_.saved_inputs) arguments[static_cast<size_t>(index)] = inputs[index];
    const std::vector<Tensor> found = differentiate_body(gradient_, arguments, gradients, wanted.vec());
    for (size_t slot = 0; slot < wanted.size(); ++slot) {
      Tensor& sum = answer[edge_of_tensor_[wanted[slot]]];
      if (found[slot].defined()) sum = sum.defined() ? sum + found[slot] : found[slot];
    }
  }

  const Gradient& gradient_;
  c10::SmallVector<int32_t, 8> first_tensor_;    // for each argument, the number of its first tensor
  c10::SmallVector<int32_t, 8> edge_of_tensor_;  // for each tensor of the arguments, its edge, or -1
  std::vector<SavedArgument> inputs_;            // as gradient_.saved_inputs
  std::vector<SavedVariable> outputs_;           // as gradient_.saved_outputs
};

}  // namespace
}  // namespace opsmith::bridge
