// What only Python can do for a gradient, and the module that Python sees.
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>

#include "entry.h"
#include "gradient.h"
#include "object.h"
#include "reading.h"
#include "timing.h"
#include "torch_python.h"

namespace opsmith::bridge {
namespace {

using at::Tensor;
using c10::IValue;

Object to_python(const IValue& value);

template <class Values>
Object list_of(const Values& values) {
  Object list = Object::take(PyList_New(0));
  for (const auto& value : values) {
    if (PyList_Append(list.get(), to_python(value).get()) != 0) throw ErrorIsSet();
  }
  return list;
}

Object to_python(const IValue& value) {
  if (value.isNone()) return Object::copy(Py_None);
  if (value.isTensor()) return to_object(value.toTensor());
  if (value.isBool()) return Object::take(PyBool_FromLong(value.toBool() ? 1 : 0));
  if (value.isSymInt()) return to_object(value.toSymInt());
  if (value.isInt()) return Object::take(PyLong_FromLongLong(value.toInt()));
  if (value.isSymFloat()) return to_object(value.toSymFloat());
  if (value.isDouble()) return Object::take(PyFloat_FromDouble(value.toDouble()));
  if (value.isString()) {
    const std::string& text = value.toStringRef();
    return Object::take(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  }
  if (value.isList()) return list_of(value.toListRef());
  throw std::runtime_error("opsmith has no operator argument of the type " + value.tagKind());
}

std::vector<Tensor> tensors_of(const Object& values) {
  std::vector<Tensor> tensors;
  for_each_item(values.get(),
                [&](const Object& value) { tensors.push_back(value.is_none() ? Tensor() : tensor_of(value.get())); });
  return tensors;
}

// Runs what asks Python, with the GIL; an error of Python's may cross other threads' C++ on its way back.
template <class Ask>
auto ask_python(Ask&& ask) {
  const WithGil gil;
  try {
    return ask();
  } catch (const ErrorIsSet&) {
    throw python_error();
  }
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
void install_plan(PyObject* plan, PyObject* body) {
  auto gradient = std::make_unique<Gradient>();
  gradient->operator_name = text_of(attribute_of(plan, "operator_name"));
  gradient->node_name = text_of(attribute_of(plan, "node_name"));
  gradient->differentiable_inputs = flags_of(attribute_of(plan, "differentiable_inputs"));
  gradient->differentiable_outputs = flags_of(attribute_of(plan, "differentiable_outputs"));
  gradient->backward_name = text_of(attribute_of(plan, "backward_name"));
  for_each_item(attribute_of(plan, "arguments").get(), [&](const Object& item) {
    gradient->arguments.push_back(
        {source_of(text_of(item_of(item, 0))), integer_of(item_of(item, 1)), is_true(item_of(item, 2))});
  });
  gradient->results = integers_of(attribute_of(plan, "results"));
  for_each_item(attribute_of(plan, "passed").get(), [&](const Object& pair) {
    gradient->passed.emplace_back(integer_of(item_of(pair, 0)), integer_of(item_of(pair, 1)));
  });
  gradient->body_outputs = integers_of(attribute_of(plan, "body_outputs"));
  gradient->saved_inputs = integers_of(attribute_of(plan, "saved_inputs"));
  gradient->saved_outputs = integers_of(attribute_of(plan, "saved_outputs"));
  gradient->asked = integers_of(attribute_of(plan, "asked"));
  gradient->refusal = text_of(attribute_of(plan, "refusal"));
  gradient->mutated = integers_of(attribute_of(plan, "mutated"));
  gradient->body = Object::copy(body).release();
  install(std::move(gradient));
}

// Reads spec/casts.py's CastPlan.
void install_casts(PyObject* operator_name, PyObject* plan) {
  Casts casts{rule_of(text_of(attribute_of(plan, "rule"))), {}, {}};
  for_each_item(attribute_of(plan, "groups").get(), [&](const Object& item) {
    Casts::Group group{integers_of(attribute_of(item, "arguments")), {}};
    for_each_item(attribute_of(item, "allowed").get(), [&](const Object& word) {
      if (const auto type = floating_type_of(text_of(word))) group.allowed.push_back(*type);
    });
    casts.groups.push_back(std::move(group));
  });
  for_each_item(attribute_of(plan, "pinned").get(), [&](const Object& item) {
    casts.pinned.emplace_back(integer_of(item_of(item, 0)), floating_type_of(text_of(item_of(item, 1))).value());
  });
  install(text_of(operator_name), casts);
}

// The functions of the module, which take their arguments by position.
template <size_t count, class Function>
PyObject* run_function(PyObject* args, Function&& function) {
  try {
    std::array<PyObject*, count> given;
    if (PyTuple_Size(args) != static_cast<Py_ssize_t>(count)) {
      PyErr_Format(PyExc_TypeError, "%zu arguments were expected", count);
      return nullptr;
    }
    for (size_t index = 0; index < count; ++index) {
      given[index] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(index));
    }
    return std::apply(function, given).release();
  } catch (const ErrorIsSet&) {
    return nullptr;
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

PyObject* py_install(PyObject*, PyObject* args) {
  return run_function<2>(args, [](PyObject* plan, PyObject* body) {
    install_plan(plan, body);
    return Object::copy(Py_None);
  });
}

PyObject* py_install_casts(PyObject*, PyObject* args) {
  return run_function<2>(args, [](PyObject* operator_name, PyObject* plan) {
    install_casts(operator_name, plan);
    return Object::copy(Py_None);
  });
}

PyObject* py_make_entry(PyObject*, PyObject* args) { return run_function<3>(args, make_entry); }

PyObject* py_time_calls(PyObject*, PyObject* args) {
  return run_function<3>(args, [](PyObject* entry, PyObject* calls, PyObject* repeats) {
    return time_calls(entry, calls, integer_of(Object::copy(repeats)));
  });
}

PyObject* py_accelerate(PyObject*, PyObject* args) {
  return run_function<2>(args, [](PyObject* type, PyObject* slot) {
    accelerate(type, slot);
    return Object::copy(Py_None);
  });
}

PyMethodDef methods[] = {
    {"install", py_install, METH_VARARGS, "install(plan, body): gives an operator its gradient."},
    {"install_casts", py_install_casts, METH_VARARGS, "install_casts(operator_name, plan): gives it its casts."},
    {"make_entry", py_make_entry, METH_VARARGS, "make_entry(operator_name, parameters, visible): its fast entry."},
    {"time_calls", py_time_calls, METH_VARARGS, "time_calls(entry, calls, repeats): seconds of a call, of freeing."},
    {"accelerate", py_accelerate, METH_VARARGS, "accelerate(type, slot): calls of its instances use their entries."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "opsmith_bridge",
    "opsmith's bridge into PyTorch's C++: gradients and casts of operators, and their fast entry.",
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

std::vector<Tensor> differentiate_body(const Gradient& gradient, const std::vector<IValue>& arguments,
                                       const std::vector<Tensor>& gradients, const std::vector<int64_t>& wanted) {
  return ask_python([&] {
    const Object values = list_of(arguments), given = list_of(gradients), numbers = list_of(wanted);
    const Object backward = attribute_of(gradient.body, "backward");
    return tensors_of(
        Object::take(PyObject_CallFunctionObjArgs(backward.get(), values.get(), given.get(), numbers.get(), nullptr)));
  });
}

std::vector<Tensor> run_body(const Gradient& gradient, const std::vector<IValue>& arguments) {
  return ask_python([&] {
    const Object values = list_of(arguments), results = attribute_of(gradient.body, "results");
    return tensors_of(Object::take(PyObject_CallFunctionObjArgs(results.get(), values.get(), nullptr)));
  });
}

void raise_gradient_error(const std::string& message) {
  ask_python([&] {
    const Object error = attribute_of(Object::take(PyImport_ImportModule("opsmith.errors")), "GradientError");
    PyErr_SetString(error.get(), message.c_str());
    throw ErrorIsSet();
  });
  throw std::logic_error("unreachable");
}

}  // namespace opsmith::bridge

PyMODINIT_FUNC PyInit_opsmith_bridge() {
  try {
    opsmith::bridge::find_tensor_types();
  } catch (const opsmith::bridge::ErrorIsSet&) {
    return nullptr;
  }
  return PyModule_Create(&opsmith::bridge::definition);
}
