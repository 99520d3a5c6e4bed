// What only Python can do for a gradient, and the module that Python sees.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "entry.h"
#include "gradient.h"
#include "reading.h"
#include "timing.h"

namespace opsmith::bridge {
namespace {

using at::Tensor;
using c10::IValue;

// A Python error that may cross other threads' C++ on its way back.
[[noreturn]] void rethrow(py::error_already_set& error) {
  error.restore();
  python_error persistent;
  persistent.persist();
  throw persistent;
}

py::object to_python(const IValue& value) {
  if (value.isNone()) return py::none();
  if (value.isTensor()) return py::reinterpret_steal<py::object>(to_object(value.toTensor()));
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isSymInt()) return py::cast(value.toSymInt());
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isSymFloat()) return py::cast(value.toSymFloat());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isString()) return py::str(value.toStringRef());
  if (value.isList()) {
    py::list list;
    for (const IValue& item : value.toListRef()) list.append(to_python(item));
    return list;
  }
  throw std::runtime_error("opsmith has no operator argument of the type " + value.tagKind());
}

py::list to_python(const std::vector<IValue>& values) {
  py::list list;
  for (const IValue& value : values) list.append(to_python(value));
  return list;
}

Tensor tensor_or_none(const py::handle& value) { return value.is_none() ? Tensor() : tensor_of(value); }

std::vector<Tensor> tensors_of(const py::object& values) {
  std::vector<Tensor> tensors;
  for (const py::handle& value : values) tensors.push_back(tensor_or_none(value));
  return tensors;
}

Source source_of(const std::string& word) {
  if (word == "gradient") return Source::gradient;
  if (word == "input") return Source::input;
  if (word == "output") return Source::output;
  if (word == "needs") return Source::needs;
  throw std::invalid_argument("an argument of a backward cannot be a " + word);
}

// The element types that casts are about; nothing for the names of others.
std::optional<c10::ScalarType> floating_type_of(const std::string& word) {
  if (word == "float16") return at::kHalf;
  if (word == "bfloat16") return at::kBFloat16;
  if (word == "float32") return at::kFloat;
  if (word == "float64") return at::kDouble;
  return std::nullopt;
}

Casts::Rule rule_of(const std::string& word) {
  if (word == "promote") return Casts::Rule::promote;
  if (word == "low") return Casts::Rule::low;
  if (word == "float32") return Casts::Rule::float32;
  throw std::invalid_argument("autocast has no rule " + word);
}

// Reads runtime/gradient_plan.py's GradientPlan.
void install_plan(const py::object& plan, const py::object& body) {
  auto gradient = std::make_unique<Gradient>();
  gradient->operator_name = text_of(plan.attr("operator_name"));
  gradient->node_name = text_of(plan.attr("node_name"));
  gradient->differentiable_inputs = flags_of(plan.attr("differentiable_inputs"));
  gradient->differentiable_outputs = flags_of(plan.attr("differentiable_outputs"));
  gradient->backward_name = text_of(plan.attr("backward_name"));
  for (const py::handle& item : plan.attr("arguments")) {
    gradient->arguments.push_back(
        {source_of(text_of(item_of(item, 0))), integer_of(item_of(item, 1)), is_true(item_of(item, 2))});
  }
  gradient->results = integers_of(plan.attr("results"));
  for (const py::handle& pair : plan.attr("passed")) {
    gradient->passed.emplace_back(integer_of(item_of(pair, 0)), integer_of(item_of(pair, 1)));
  }
  gradient->body_outputs = integers_of(plan.attr("body_outputs"));
  gradient->saved_inputs = integers_of(plan.attr("saved_inputs"));
  gradient->saved_outputs = integers_of(plan.attr("saved_outputs"));
  gradient->refusal = text_of(plan.attr("refusal"));
  gradient->mutated = integers_of(plan.attr("mutated"));
  gradient->body = py::object(body).release().ptr();
  install(std::move(gradient));
}

// Reads spec/casts.py's CastPlan.
void install_casts(const py::object& operator_name, const py::object& plan) {
  Casts casts{rule_of(text_of(plan.attr("rule"))), {}, {}};
  for (const py::handle& item : plan.attr("groups")) {
    Casts::Group group{integers_of(item.attr("arguments")), {}};
    for (const py::handle& word : item.attr("allowed")) {
      if (const auto type = floating_type_of(text_of(word))) group.allowed.push_back(*type);
    }
    casts.groups.push_back(std::move(group));
  }
  for (const py::handle& item : plan.attr("pinned")) {
    casts.pinned.emplace_back(integer_of(item_of(item, 0)), floating_type_of(text_of(item_of(item, 1))).value());
  }
  install(text_of(operator_name), casts);
}

}  // namespace

std::vector<Tensor> differentiate_body(const Gradient& gradient, const std::vector<IValue>& arguments,
                                       const std::vector<Tensor>& gradients, const std::vector<int64_t>& wanted) {
  py::gil_scoped_acquire gil;
  try {
    py::list given;
    for (const Tensor& tensor : gradients) {
      given.append(tensor.defined() ? to_python(IValue(tensor)) : py::object(py::none()));
    }
    py::list numbers;
    for (const int64_t tensor : wanted) numbers.append(py::int_(tensor));
    const py::handle body(gradient.body);
    return tensors_of(body.attr("backward")(to_python(arguments), given, numbers));
  } catch (py::error_already_set& error) {
    rethrow(error);
  }
}

std::vector<Tensor> run_body(const Gradient& gradient, const std::vector<IValue>& arguments) {
  py::gil_scoped_acquire gil;
  try {
    return tensors_of(py::handle(gradient.body).attr("results")(to_python(arguments)));
  } catch (py::error_already_set& error) {
    rethrow(error);
  }
}

void raise_gradient_error(const std::string& message) {
  py::gil_scoped_acquire gil;
  try {
    PyErr_SetString(py::module_::import("opsmith.errors").attr("GradientError").ptr(), message.c_str());
    throw py::error_already_set();
  } catch (py::error_already_set& error) {
    rethrow(error);
  }
}

}  // namespace opsmith::bridge

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.doc() = "opsmith's bridge into PyTorch's C++: gradients and casts of operators, and their fast entry.";
  module.def("install", &opsmith::bridge::install_plan, py::arg("plan"), py::arg("body"));
  module.def("install_casts", &opsmith::bridge::install_casts, py::arg("operator_name"), py::arg("plan"));
  module.def("make_entry", &opsmith::bridge::make_entry, py::arg("operator_name"), py::arg("parameters"),
             py::arg("visible"));
  module.def("time_calls", &opsmith::bridge::time_calls, py::arg("entry"), py::arg("calls"), py::arg("repeats"));
  module.def("accelerate", &opsmith::bridge::accelerate, py::arg("type"), py::arg("slot"));
}
