// What the bridge uses of libtorch_python, declared by hand: PyTorch's own headers of it need pybind11 and all of
// Python's API, and make a library for one version of Python.
//
// agreement.cpp holds these declarations against PyTorch's headers wherever the bridge is built.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace opsmith::bridge {

// The sizes of PyTorch's classes, and where the members are that are used.
constexpr size_t kWarningHandlerSize = 48;
constexpr size_t kErrorTypeOffset = 8;
constexpr size_t kErrorMessageOffset = 32;
constexpr size_t kErrorSize = 64;

}  // namespace opsmith::bridge

#ifndef OPSMITH_COMPARES_DECLARATIONS

#include "object.h"

// Its casts between tensors and Python objects.
namespace pybind11 {

class handle {
 public:
  handle(PyObject* object) : object_(object) {}
  PyObject* ptr() const { return object_; }

 private:
  PyObject* object_;
};

enum class return_value_policy : uint8_t { automatic = 0 };

namespace detail {

template <class T, class Condition = void>
class type_caster;

template <>
class type_caster<at::Tensor> {
 public:
  bool load(handle object, bool convert);
  static handle cast(const at::Tensor& value, return_value_policy policy, handle parent);
  at::Tensor value;
};

template <>
class type_caster<c10::SymInt> {
 public:
  static handle cast(const c10::SymInt& value, return_value_policy policy, handle parent);
};

template <>
class type_caster<c10::SymFloat> {
 public:
  static handle cast(const c10::SymFloat& value, return_value_policy policy, handle parent);
};

}  // namespace detail
}  // namespace pybind11

// A Python error on its way through C++, maybe from another thread. It is caught by this name in libtorch_python.
struct python_error : public std::exception {
  // Takes Python's error; the GIL is held.
  python_error() {
    PyErr_Fetch(&type, &value, &traceback);
    const auto text = opsmith::bridge::Object::copy(value != nullptr ? PyObject_Str(value) : nullptr);
    try {
      message = text.get() != nullptr ? opsmith::bridge::text_of(text) : "python_error";
    } catch (const opsmith::bridge::ErrorIsSet&) {
      message = "python_error";
    }
    PyErr_Clear();
  }
  python_error(const python_error& other)
      : std::exception(other),
        type(other.type),
        value(other.value),
        traceback(other.traceback),
        message(other.message) {
    const opsmith::bridge::WithGil gil;
    Py_XINCREF(type);
    Py_XINCREF(value);
    Py_XINCREF(traceback);
  }
  python_error& operator=(const python_error&) = delete;
  ~python_error() override {
    if (type == nullptr && value == nullptr && traceback == nullptr) return;
    const opsmith::bridge::WithGil gil;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  const char* what() const noexcept override { return message.c_str(); }

  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  std::string message;
};

namespace torch {

// Sets Python's error to what a C++ exception stands for.
void translate_exception_to_python(const std::exception_ptr& error);

// Keeps C++'s warnings of this thread, and gives them to Python when it is destroyed, which may throw.
struct PyWarningHandler {
  PyWarningHandler() noexcept;
  PyWarningHandler(const PyWarningHandler&) = delete;
  PyWarningHandler& operator=(const PyWarningHandler&) = delete;
  ~PyWarningHandler() noexcept(false);

 private:
  alignas(8) std::byte members_[opsmith::bridge::kWarningHandlerSize];
};

}  // namespace torch

#endif
