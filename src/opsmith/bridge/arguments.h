// Python's arguments as the dispatcher takes them, by the types of an operator's schema.
//
// What is not exactly of its parameter's type is refused: subclasses of numbers and of tensors, SymInts, and whatever
// else there is, are left to torch.ops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "object.h"
#include "reading.h"

namespace opsmith::bridge {
namespace {

using torch::jit::Stack;

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

// Each of these takes a Python object of exactly the expected type and refuses any other.
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
    result = PyFloat_AsDouble(value);
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

// Adds an argument, or a list of them, to those of a call.
template <class T>
bool push(PyObject* value, bool is_list, Stack& stack) {
  if (!is_list) {
    T item{};
    if (!take(value, item)) return false;
    stack.emplace_back(std::move(item));
    return true;
  }
  const bool is_tuple = PyTuple_CheckExact(value);
  if (!is_tuple && !PyList_CheckExact(value)) return false;
  const Py_ssize_t size = is_tuple ? PyTuple_Size(value) : PyList_Size(value);
  c10::List<T> list;
  list.reserve(static_cast<size_t>(size));
  for (Py_ssize_t index = 0; index < size; ++index) {
    T item{};
    if (!take(is_tuple ? PyTuple_GetItem(value, index) : PyList_GetItem(value, index), item)) return false;
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

}  // namespace
}  // namespace opsmith::bridge
