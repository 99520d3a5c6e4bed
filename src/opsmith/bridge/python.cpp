// What only Python can do for a gradient, and the module that Python sees.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

#include "entry.h"
#include "gradient.h"

namespace opsmith::bridge {
namespace {

namespace py = pybind11;
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
  if (value.isTensor()) return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
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

Tensor tensor_or_none(const py::handle& value) { return value.is_none() ? Tensor() : THPVariable_Unpack(value.ptr()); }

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
  static const std::map<std::string, c10::ScalarType> types = {
      {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}, {"float64", at::kDouble}};
  const auto found = types.find(word);
  return found != types.end() ? std::optional(found->second) : std::nullopt;
}

// Reads spec/casts.py's CastPlan.
void install_casts(const std::string& operator_name, const py::object& plan) {
  static const std::map<std::string, Casts::Rule> rules = {
      {"promote", Casts::Rule::promote}, {"low", Casts::Rule::low}, {"float32", Casts::Rule::float32}};
  Casts casts{rules.at(plan.attr("rule").cast<std::string>()), {}, {}};
  for (const py::handle& item : plan.attr("groups")) {
    Casts::Group group{item.attr("arguments").cast<std::vector<int64_t>>(), {}};
    for (const py::handle& word : item.attr("allowed")) {
      if (const auto type = floating_type_of(word.cast<std::string>())) group.allowed.push_back(*type);
    }
    casts.groups.push_back(std::move(group));
  }
  for (const py::handle& item : plan.attr("pinned")) {
    const auto [index, word] = item.cast<std::pair<int64_t, std::string>>();
    casts.pinned.emplace_back(index, floating_type_of(word).value());
  }
  install(operator_name, casts);
}

// Reads runtime/gradient_plan.py's GradientPlan.
void install_plan(const py::object& plan, const py::object& body) {
  auto gradient = std::make_unique<Gradient>();
  gradient->operator_name = plan.attr("operator_name").cast<std::string>();
  gradient->node_name = plan.attr("node_name").cast<std::string>();
  gradient->differentiable_inputs = plan.attr("differentiable_inputs").cast<std::vector<bool>>();
  gradient->differentiable_outputs = plan.attr("differentiable_outputs").cast<std::vector<bool>>();
  gradient->backward_name = plan.attr("backward_name").cast<std::string>();
  for (const py::handle& item : plan.attr("arguments")) {
    const auto [word, index, optional] = item.cast<std::tuple<std::string, int64_t, bool>>();
    gradient->arguments.push_back({source_of(word), index, optional});
  }
  gradient->results = plan.attr("results").cast<std::vector<int64_t>>();
  gradient->passed = plan.attr("passed").cast<std::vector<std::pair<int64_t, int64_t>>>();
  gradient->body_outputs = plan.attr("body_outputs").cast<std::vector<int64_t>>();
  gradient->saved_inputs = plan.attr("saved_inputs").cast<std::vector<int64_t>>();
  gradient->saved_outputs = plan.attr("saved_outputs").cast<std::vector<int64_t>>();
  gradient->refusal = plan.attr("refusal").cast<std::string>();
  gradient->mutated = plan.attr("mutated").cast<std::vector<int64_t>>();
  gradient->body = py::object(body).release().ptr();
  install(std::move(gradient));
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
    const py::handle body(gradient.body);
    return tensors_of(body.attr("backward")(to_python(arguments), given, py::cast(wanted)));
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
  module.def("make_entry", &opsmith::bridge::make_entry, py::arg("description"));
  module.def("accelerate", &opsmith::bridge::accelerate, py::arg("type"), py::arg("slot"));
}
