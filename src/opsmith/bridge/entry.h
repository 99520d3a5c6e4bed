// The fast entry: what happens between a Python call of an operator and PyTorch's dispatcher.
//
// A header, although it is included once: PyTorch's headers are most of what the bridge's build takes, and each file
// more would read them again.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "reading.h"

namespace opsmith::bridge {
namespace {

using torch::jit::Stack;

constexpr const char* kCapsule = "opsmith.entry";

enum class Element : uint8_t { tensor, integer, number, boolean, text };

// The type of a parameter. `is_list` and `is_optional` are never both set.
struct Type {
  Element element;
  bool is_list;
  bool is_optional;
};

Type type_of(std::string word) {
  Type type{};
  type.is_optional = word.back() == '?';
  if (type.is_optional) word.pop_back();
  type.is_list = word.size() > 2 && word.compare(word.size() - 2, 2, "[]") == 0;
  if (type.is_list) word.resize(word.size() - 2);
  if (word == "Tensor") {
    type.element = Element::tensor;
  } else if (word == "int") {
    type.element = Element::integer;
  } else if (word == "float") {
    type.element = Element::number;
  } else if (word == "bool") {
    type.element = Element::boolean;
  } else if (word == "str") {
    type.element = Element::text;
  } else {
    throw std::invalid_argument("no argument has the type " + word);
  }
  return type;
}

// Each of these takes a Python object of exactly the expected type and refuses any other. Subclasses of numbers and of
// tensors, SymInts, and whatever else there is, are left to torch.ops.
bool take(PyObject* value, at::Tensor& result) {
  if (!is_plain_tensor(value)) return false;
  result = tensor_of(value);
  return true;
}

bool take(PyObject* value, int64_t& result) {
  if (!PyLong_CheckExact(value)) return false;
  int overflow = 0;
  result = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool take(PyObject* value, double& result) {
  if (PyFloat_CheckExact(value)) {
    result = PyFloat_AS_DOUBLE(value);
    return true;
  }
  int64_t integer = 0;
  constexpr int64_t exact = int64_t{1} << 53;
  if (!take(value, integer) || integer < -exact || integer > exact) return false;
  result = static_cast<double>(integer);
  return true;
}

bool take(PyObject* value, bool& result) {
  result = value == Py_True;
  return result || value == Py_False;
}

bool take(PyObject* value, std::string& result) {
  if (!PyUnicode_CheckExact(value)) return false;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  result.assign(text, static_cast<size_t>(size));
  return true;
}

template <class T>
bool push(PyObject* value, bool is_list, Stack& stack) {
  if (!is_list) {
    T item{};
    if (!take(value, item)) return false;
    stack.emplace_back(std::move(item));
    return true;
  }
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  PyObject** items = PySequence_Fast_ITEMS(value);
  c10::List<T> list;
  list.reserve(static_cast<size_t>(size));
  for (Py_ssize_t index = 0; index < size; ++index) {
    T item{};
    if (!take(items[index], item)) return false;
    list.push_back(std::move(item));
  }
  stack.emplace_back(std::move(list));
  return true;
}

bool push(PyObject* value, const Type& type, Stack& stack) {
  if (value == Py_None) {
    if (!type.is_optional) return false;
    stack.emplace_back();
    return true;
  }
  switch (type.element) {
    case Element::tensor:
      return push<at::Tensor>(value, type.is_list, stack);
    case Element::integer:
      return push<int64_t>(value, type.is_list, stack);
    case Element::number:
      return push<double>(value, type.is_list, stack);
    case Element::boolean:
      return push<bool>(value, type.is_list, stack);
    case Element::text:
      return push<std::string>(value, type.is_list, stack);
  }
  return false;
}

struct Parameter {
  PyObject* name;  // interned, so that a call's keywords are mostly the very same object
  Type type;
  PyObject* fallback;  // the default, or null
};

// One operator's entry. It lives as long as the capsule that holds it.
class Entry {
 public:
  Entry(const py::object& operator_name, const py::object& parameters, const py::object& visible)
      : operator_(c10::Dispatcher::singleton().findSchemaOrThrow(text_of(operator_name).c_str(), "")),
        visible_(integers_of(visible)) {
    for (const py::handle& item : parameters) {
      Parameter parameter{PyUnicode_InternFromString(text_of(item.attr("name")).c_str()),
                          type_of(text_of(item.attr("kind").attr("value"))), nullptr};
      if (is_true(item.attr("has_default"))) parameter.fallback = py::object(item.attr("default")).release().ptr();
      positional_ += is_true(item.attr("keyword_only")) ? 0 : 1;
      parameters_.push_back(parameter);
    }
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    for (const Parameter& parameter : parameters_) {
      Py_XDECREF(parameter.name);
      Py_XDECREF(parameter.fallback);
    }
  }

  // Puts a call's arguments on the stack, in order. False where the call is not plain; then nothing has happened.
  bool parse(PyObject* args, PyObject* kwargs, Stack& stack) const {
    const size_t given = static_cast<size_t>(PyTuple_GET_SIZE(args));
    if (given > positional_) return false;
    c10::SmallVector<PyObject*, 16> values(parameters_.size(), nullptr);
    for (size_t index = 0; index < given; ++index) values[index] = PyTuple_GET_ITEM(args, index);
    if (kwargs != nullptr) {
      PyObject *key = nullptr, *value = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(kwargs, &position, &key, &value)) {
        const size_t index = find(key);
        if (index == parameters_.size() || values[index] != nullptr) return false;
        values[index] = value;
      }
    }
    stack.reserve(std::max(parameters_.size(), visible_.size()) + 1);
    for (size_t index = 0; index < parameters_.size(); ++index) {
      PyObject* value = values[index] != nullptr ? values[index] : parameters_[index].fallback;
      if (value == nullptr || !push(value, parameters_[index].type, stack)) return false;
    }
    return true;
  }

  // Runs the operator on what `parse` has put on the stack; the GIL need not be held.
  void dispatch(Stack& stack) const { operator_.callBoxed(stack); }

  // Runs the operator; null with a Python error set where it fails.
  PyObject* run(Stack& stack) const {
    HANDLE_TH_ERRORS {
      py::gil_scoped_release no_gil;
      dispatch(stack);
    }
    if (visible_.size() == 1) return to_object(stack[visible_[0]].toTensor());
    if (visible_.empty()) Py_RETURN_NONE;
    auto results = py::tuple(visible_.size());
    for (size_t index = 0; index < visible_.size(); ++index) {
      PyTuple_SET_ITEM(results.ptr(), index, to_object(stack[visible_[index]].toTensor()));
    }
    return results.release().ptr();
    END_HANDLE_TH_ERRORS
  }

 private:
  size_t find(PyObject* key) const {
    for (size_t index = 0; index < parameters_.size(); ++index) {
      if (parameters_[index].name == key) return index;
    }
    for (size_t index = 0; index < parameters_.size(); ++index) {
      if (PyUnicode_Compare(parameters_[index].name, key) == 0) return index;
    }
    return parameters_.size();
  }

  c10::OperatorHandle operator_;
  std::vector<int64_t> visible_;  // the outputs that the caller gets
  std::vector<Parameter> parameters_;
  size_t positional_ = 0;
};

// The type that was accelerated, as it was.
struct Accelerated {
  ternaryfunc python_call = nullptr;
  Py_ssize_t offset = 0;
} accelerated;

const Entry* entry_of(PyObject* self) {
  PyObject* capsule = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + accelerated.offset);
  if (capsule == nullptr) return nullptr;
  const void* entry = PyCapsule_GetPointer(capsule, kCapsule);
  if (entry == nullptr) PyErr_Clear();
  return static_cast<const Entry*>(entry);
}

// Modes want to see the call as torch.ops makes it.
bool is_watched() {
  return at::impl::torch_function_mode_enabled() || c10::impl::TorchDispatchModeTLS::any_modes_set();
}

// An error that crossed C++ is a RuntimeError. Where the arguments are to blame, Python knows the typed exception.
void explain_error(PyObject* self, PyObject* args, PyObject* kwargs) {
  py::error_already_set error;
  try {
    const py::object keywords = kwargs != nullptr ? py::reinterpret_borrow<py::object>(kwargs) : py::dict();
    const py::object better = py::handle(self).attr("_explain")(py::handle(args), keywords);
    if (!better.is_none()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(better.ptr())), better.ptr());
      return;
    }
  } catch (py::error_already_set& other) {
    other.restore();
    return;
  }
  error.restore();
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (const Entry* entry = entry_of(self); entry != nullptr && !is_watched()) {
    Stack stack;
    if (entry->parse(args, kwargs, stack)) {
      PyObject* result = entry->run(stack);
      if (result == nullptr) explain_error(self, args, kwargs);
      return result;
    }
  }
  return accelerated.python_call(self, args, kwargs);
}

}  // namespace

// Returns what parses calls of one operator. `parameters` are spec/signature.py's, and `visible` are the positions of
// the outputs that the caller gets.
py::object make_entry(const py::object& operator_name, const py::object& parameters, const py::object& visible) {
  auto entry = std::make_unique<Entry>(operator_name, parameters, visible);
  return py::capsule(entry.release(), kCapsule,
                     [](PyObject* capsule) { delete static_cast<Entry*>(PyCapsule_GetPointer(capsule, kCapsule)); });
}

// Makes calls of a type's instances use the entry that lies in their slot of the given name, where one lies there.
//
// The slot of the type that calls its instances is replaced, not `__call__` itself: torch.compile, subclasses and
// debuggers see the function in Python, which does the same.
void accelerate(const py::object& type, const py::object& slot) {
  auto* operator_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  const py::object member = type.attr(slot);
  if (Py_TYPE(member.ptr()) != &PyMemberDescr_Type)
    throw std::invalid_argument(text_of(slot) + " is no slot of the type");
  if (operator_type->tp_call == &call) return;
  accelerated.offset = reinterpret_cast<PyMemberDescrObject*>(member.ptr())->d_member->offset;
  accelerated.python_call = operator_type->tp_call;
  operator_type->tp_call = &call;
  PyType_Modified(operator_type);
}

}  // namespace opsmith::bridge
