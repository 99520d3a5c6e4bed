// What the parts of the bridge share: how one operator is differentiated and cast, and what only Python can do.
//
// The bridge gives operators their gradient in C++. It is written against the whole C++ API of PyTorch, so it is built
// once for each torch and Python; operators' own libraries never depend on it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct _object;
using PyObject = _object;

namespace opsmith::bridge {

// Where an argument of the backward comes from.
enum class Source : uint8_t {
  gradient,  // of the output `index`
  input,     // the forward's argument `index`
  output,    // the forward's output `index`
  needs,     // whether the gradient of the argument `index` is needed
};

struct Argument {
  Source source;
  int64_t index;
  bool optional;  // a gradient that may be None where it is zero
};

// How an operator is differentiated. Made once when the operator is registered, and never changed or freed.
struct Gradient {
  std::string operator_name;  // namespace::name
  std::string node_name;      // what `grad_fn` and the profiler show

  std::vector<bool> differentiable_inputs;   // for each argument
  std::vector<bool> differentiable_outputs;  // for each output

  // The operator of the backward definition: its name, arguments, and for each result the argument of the forward that
  // it is the gradient of. Empty where the body is differentiated instead.
  std::string backward_name;
  std::vector<Argument> arguments;
  std::vector<int64_t> results;
  // Arguments that have the gradient of an output as their own, and that output.
  std::vector<std::pair<int64_t, int64_t>> passed;
  // Saved outputs that the backward reads. Their gradients, which only a second gradient has, are the body's.
  std::vector<int64_t> body_outputs;

  std::vector<int64_t> saved_inputs;   // arguments that a node keeps, in ascending order
  std::vector<int64_t> saved_outputs;  // outputs that it keeps
  // Arguments that say whether a saved output is needed: true where a gradient is recorded.
  std::vector<int64_t> asked;

  // A Python object with the methods `backward(arguments, gradients, wanted)` and `results(arguments)`.
  PyObject* body = nullptr;
  // Not empty for an operator without a gradient: the words of the GradientError that a request for one raises.
  std::string refusal;
  // Arguments that the operator writes to.
  std::vector<int64_t> mutated;

  // The backward's operator. It is looked up when first needed, because it may be registered after the forward's.
  const c10::OperatorHandle& backward() const;

 private:
  mutable std::once_flag found_;
  mutable std::optional<c10::OperatorHandle> backward_;
};

// Calls `visit(tensor)` for each tensor of an argument: one, those of a list, or none.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) visit(tensor);
  } else if (value.isList()) {  // an empty list of tensors, or one of numbers
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor()) visit(item.toTensor());
    }
  }
}

// Registers the kernels that `gradient` calls for; takes it over.
void install(std::unique_ptr<Gradient> gradient);

// To which type arguments are cast under torch.autocast: spec/casts.py's CastPlan.
struct Casts {
  enum class Rule : uint8_t { promote, low, float32 };
  // Arguments that must have one type, and the types that it may be.
  struct Group {
    std::vector<int64_t> arguments;
    std::vector<c10::ScalarType> allowed;
  };
  Rule rule;
  std::vector<Group> groups;
  std::vector<std::pair<int64_t, c10::ScalarType>> pinned;
};

// Registers the kernels for regions of autocast on the CPU and on GPUs.
void install(const std::string& operator_name, const Casts& casts);

// Differentiates the body in Python. `arguments` are all of the forward's, None for one that was not saved; `wanted`
// counts their tensors in order. Returns a tensor, maybe an undefined one, for each wanted.
std::vector<at::Tensor> differentiate_body(const Gradient& gradient, const std::vector<c10::IValue>& arguments,
                                           const std::vector<at::Tensor>& gradients,
                                           const std::vector<int64_t>& wanted);

// Runs the body in Python, recording gradients of both kinds.
std::vector<at::Tensor> run_body(const Gradient& gradient, const std::vector<c10::IValue>& arguments);

// Throws Python's GradientError.
[[noreturn]] void raise_gradient_error(const std::string& message);

}  // namespace opsmith::bridge
