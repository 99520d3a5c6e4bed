// The fast entry: what happens between a Python call of an operator and PyTorch's dispatcher.
//
// A header, although it is included once: PyTorch's headers are most of what the bridge's build takes, and each file
// more would read them again.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arguments.h"
#include "object.h"
#include "reading.h"
#include "torch_python.h"

namespace opsmith::bridge {
namespace {

constexpr const char* kCapsule = "opsmith.entry";

struct Parameter {
  Object name;  // interned, so that a call's keywords are mostly the very same object
  Type type;
  Object fallback;  // the default, or none
};

// One operator's entry. It lives as long as the capsule that holds it.
class Entry {
 public:
  Entry(PyObject* operator_name, PyObject* parameters, PyObject* visible)
      : operator_(c10::Dispatcher::singleton().findSchemaOrThrow(text_of(operator_name).c_str(), "")),
        visible_(integers_of(visible)) {
    for_each_item(parameters, [this](const Object& item) {
      Parameter parameter{Object::take(PyUnicode_InternFromString(text_of(attribute_of(item, "name")).c_str())),
                          type_of(text_of(attribute_of(attribute_of(item, "kind"), "value"))),
                          {}};
      if (is_true(attribute_of(item, "has_default"))) parameter.fallback = attribute_of(item, "default");
      positional_ += is_true(attribute_of(item, "keyword_only")) ? 0 : 1;
      parameters_.push_back(std::move(parameter));
    });
  }

  // Puts a call's arguments on the stack, in order. False where the call is not plain; then nothing has happened.
  bool parse(PyObject* args, PyObject* kwargs, Stack& stack) const {
    const size_t given = static_cast<size_t>(PyTuple_Size(args));
    if (given > positional_) return false;
    c10::SmallVector<PyObject*, 16> values(parameters_.size(), nullptr);
    for (size_t index = 0; index < given; ++index)
      values[index] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(index));
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
      PyObject* value = values[index] != nullptr ? values[index] : parameters_[index].fallback.get();
      if (value == nullptr || !push(value, parameters_[index].type, stack)) return false;
    }
    return true;
  }

  // Runs the operator on what `parse` has put on the stack; the GIL need not be held.
  void dispatch(Stack& stack) const { operator_.callBoxed(stack); }

  // Runs the operator; null with a Python error set where it fails.
  PyObject* run(Stack& stack) const {
    if (const std::exception_ptr failure = try_dispatch(stack)) {
      torch::translate_exception_to_python(failure);
      return nullptr;
    }
    if (visible_.size() == 1) return to_object(stack[visible_[0]].toTensor()).release();
    if (visible_.empty()) return Object::copy(Py_None).release();
    const auto count = static_cast<Py_ssize_t>(visible_.size());
    Object results = Object::take(PyTuple_New(count));
    for (Py_ssize_t index = 0; index < count; ++index) {
      PyTuple_SetItem(results.get(), index, to_object(stack[visible_[index]].toTensor()).release());
    }
    return results.release();
  }

 private:
  // Runs the operator, whose warnings become Python's, and returns what went wrong. A warning that Python makes an
  // error of is one, unless the operator has failed itself.
  std::exception_ptr try_dispatch(Stack& stack) const {
    std::exception_ptr failure;
    try {
      const torch::PyWarningHandler warnings;
      try {
        const WithoutGil without_gil;
        dispatch(stack);
      } catch (...) {
        failure = std::current_exception();
      }
    } catch (...) {
      if (failure) {
        PyErr_Clear();
      } else {
        failure = std::current_exception();
      }
    }
    return failure;
  }

  size_t find(PyObject* key) const {
    for (size_t index = 0; index < parameters_.size(); ++index) {
      if (parameters_[index].name.get() == key) return index;
    }
    for (size_t index = 0; index < parameters_.size(); ++index) {
      if (PyUnicode_Compare(parameters_[index].name.get(), key) == 0) return index;
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
  size_t slot = 0;  // where an instance has its entry, in words
} accelerated;

PyObject*& word_of(PyObject* object, size_t index) { return reinterpret_cast<PyObject**>(object)[index]; }

const Entry* entry_of(PyObject* self) {
  PyObject* capsule = word_of(self, accelerated.slot);
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
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  try {
    const Object keywords = kwargs != nullptr ? Object::copy(kwargs) : Object::take(PyDict_New());
    const Object better = Object::take(PyObject_CallMethod(self, "_explain", "OO", args, keywords.get()));
    if (better.is_none()) {
      PyErr_Restore(type, value, traceback);
      return;
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(better.get())), better.get());
  } catch (const ErrorIsSet&) {
    // What went wrong in the explanation is told instead.
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  try {
    if (const Entry* entry = entry_of(self); entry != nullptr && !is_watched()) {
      Stack stack;
      if (entry->parse(args, kwargs, stack)) {
        PyObject* result = entry->run(stack);
        if (result == nullptr) explain_error(self, args, kwargs);
        return result;
      }
    }
  } catch (const ErrorIsSet&) {
    return nullptr;
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
  return accelerated.python_call(self, args, kwargs);
}

// The only word of an object that is `wanted`. The limited API tells neither where a type keeps its functions nor where
// an instance has its slots, and Python's versions differ in it.
std::optional<size_t> only_word(PyObject* object, size_t begin, size_t end, const void* wanted) {
  std::optional<size_t> found;
  for (size_t index = begin; index < end; ++index) {
    if (word_of(object, index) != wanted) continue;
    if (found) return std::nullopt;
    found = index;
  }
  return found;
}

size_t find_slot(PyObject* type, PyObject* slot) {
  const Object instance =
      Object::take(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__", "O", type));
  const Object marker = Object::take(PyList_New(0));
  const auto size = static_cast<size_t>(integer_of(attribute_of(type, "__basicsize__")));
  if (PyObject_SetAttr(instance.get(), slot, marker.get()) != 0) throw ErrorIsSet();
  const auto found = only_word(instance.get(), sizeof(PyObject) / sizeof(void*), size / sizeof(void*), marker.get());
  if (!found) throw std::invalid_argument(text_of(slot) + " is not a slot of the type");
  return *found;
}

}  // namespace

// Returns what parses calls of one operator. `parameters` are spec/signature.py's, and `visible` are the positions of
// the outputs that the caller gets.
Object make_entry(PyObject* operator_name, PyObject* parameters, PyObject* visible) {
  auto entry = std::make_unique<Entry>(operator_name, parameters, visible);
  const auto destroy = [](PyObject* capsule) { delete static_cast<Entry*>(PyCapsule_GetPointer(capsule, kCapsule)); };
  Object capsule = Object::take(PyCapsule_New(entry.get(), kCapsule, destroy));
  entry.release();
  return capsule;
}

// Makes calls of a type's instances use the entry that lies in their slot of the given name, where one lies there.
//
// The slot of the type that calls its instances is replaced, not `__call__` itself: torch.compile, subclasses and
// debuggers see the function in Python, which does the same.
void accelerate(PyObject* type, PyObject* slot) {
  constexpr size_t searched = 32;  // words; it is the seventeenth of CPython's types with a GIL
  void* python_call = PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type), Py_tp_call);
  if (python_call == reinterpret_cast<void*>(&call)) return;
  accelerated.slot = find_slot(type, slot);
  const auto place = python_call != nullptr ? only_word(type, 0, searched, python_call) : std::nullopt;
  if (!place) throw std::invalid_argument("this Python's types are laid out in a way that is not known");
  accelerated.python_call = reinterpret_cast<ternaryfunc>(python_call);
  word_of(type, *place) = reinterpret_cast<PyObject*>(&call);
  PyType_Modified(reinterpret_cast<PyTypeObject*>(type));
}

}  // namespace opsmith::bridge
