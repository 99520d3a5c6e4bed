// Python objects for C++, by Python's limited API (PEP 384): one library serves every Python from 3.10 on.
//
// No pybind11 here, which is built for one version of Python, and takes long to compile.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace opsmith::bridge {
namespace {

// Thrown where Python has set its error: it is for Python to raise.
struct ErrorIsSet {};

// A reference of ours to a Python object, or none.
class Object {
 public:
  Object() = default;
  // Takes a new reference over; throws where Python has returned none because of an error.
  static Object take(PyObject* reference) {
    if (reference == nullptr) throw ErrorIsSet();
    return Object(reference);
  }
  static Object copy(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Object(borrowed);
  }
  Object(const Object& other) : reference_(other.reference_) { Py_XINCREF(reference_); }
  Object(Object&& other) noexcept : reference_(std::exchange(other.reference_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(reference_, other.reference_);
    return *this;
  }
  ~Object() { Py_XDECREF(reference_); }

  PyObject* get() const { return reference_; }
  PyObject* release() { return std::exchange(reference_, nullptr); }
  bool is_none() const { return reference_ == Py_None; }

 private:
  explicit Object(PyObject* reference) : reference_(reference) {}

  PyObject* reference_ = nullptr;
};

// Holds the GIL in any thread, and gives it up for a while in one that has it.
class WithGil {
 public:
  WithGil() = default;
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_ = PyGILState_Ensure();
};

class WithoutGil {
 public:
  WithoutGil() = default;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() { PyEval_RestoreThread(thread_); }

 private:
  PyThreadState* thread_ = PyEval_SaveThread();
};

Object attribute_of(PyObject* object, const char* name) { return Object::take(PyObject_GetAttrString(object, name)); }
Object attribute_of(const Object& object, const char* name) { return attribute_of(object.get(), name); }

Object item_of(PyObject* values, Py_ssize_t index) { return Object::take(PySequence_GetItem(values, index)); }
Object item_of(const Object& values, Py_ssize_t index) { return item_of(values.get(), index); }

int64_t integer_of(const Object& value) {
  const int64_t integer = PyLong_AsLongLong(value.get());
  if (integer == -1 && PyErr_Occurred() != nullptr) throw ErrorIsSet();
  return integer;
}

std::string text_of(PyObject* value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) throw ErrorIsSet();
  return {text, static_cast<size_t>(size)};
}
std::string text_of(const Object& value) { return text_of(value.get()); }

bool is_true(const Object& value) { return value.get() == Py_True; }

// Calls `visit(item)` for each item of anything that can be iterated over.
template <class Visit>
void for_each_item(PyObject* values, Visit&& visit) {
  const Object iterator = Object::take(PyObject_GetIter(values));
  while (PyObject* item = PyIter_Next(iterator.get())) visit(Object::take(item));
  if (PyErr_Occurred() != nullptr) throw ErrorIsSet();
}

std::vector<int64_t> integers_of(PyObject* values) {
  std::vector<int64_t> integers;
  for_each_item(values, [&](const Object& value) { integers.push_back(integer_of(value)); });
  return integers;
}
std::vector<int64_t> integers_of(const Object& values) { return integers_of(values.get()); }

std::vector<bool> flags_of(const Object& values) {
  std::vector<bool> flags;
  for_each_item(values.get(), [&](const Object& value) { flags.push_back(is_true(value)); });
  return flags;
}

}  // namespace
}  // namespace opsmith::bridge
