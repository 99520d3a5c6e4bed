// How C++ reads what Python says: tensors, numbers, texts and sequences of them.
//
// By hand, because the bridge shall be built soon: pybind11's casts of containers take long to compile, and so does
// PyTorch's header of Python tensors, of which two types are all that is needed.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>
#include <vector>

namespace opsmith::bridge {
namespace {

namespace py = pybind11;

// torch.Tensor and torch.nn.Parameter. A parameter is a tensor that Python keeps books about, nothing more.
struct TensorTypes {
  PyTypeObject* tensor = reinterpret_cast<PyTypeObject*>(py::module_::import("torch").attr("Tensor").ptr());
  PyTypeObject* parameter = reinterpret_cast<PyTypeObject*>(py::module_::import("torch.nn").attr("Parameter").ptr());
};

// Whether an object is a tensor and of no subclass, which could behave in another way.
bool is_plain_tensor(PyObject* value) {
  static const TensorTypes types;
  return Py_TYPE(value) == types.tensor || Py_TYPE(value) == types.parameter;
}

at::Tensor tensor_of(const py::handle& value) {
  py::detail::type_caster<at::Tensor> caster;
  if (!caster.load(value, /*convert=*/false)) throw py::type_error("a tensor was expected");
  return std::move(static_cast<at::Tensor&>(caster));
}

// A new reference to the Python object of a tensor.
PyObject* to_object(const at::Tensor& tensor) {
  return py::detail::type_caster<at::Tensor>::cast(tensor, py::return_value_policy::move, py::handle()).ptr();
}

int64_t integer_of(const py::handle& value) {
  const int64_t integer = PyLong_AsLongLong(value.ptr());
  if (integer == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return integer;
}

std::string text_of(const py::handle& value) {
  const char* text = PyUnicode_AsUTF8(value.ptr());
  if (text == nullptr) throw py::error_already_set();
  return text;
}

std::vector<int64_t> integers_of(const py::handle& values) {
  std::vector<int64_t> integers;
  for (const py::handle& value : values) integers.push_back(integer_of(value));
  return integers;
}

bool is_true(const py::handle& value) { return value.ptr() == Py_True; }

std::vector<bool> flags_of(const py::handle& values) {
  std::vector<bool> flags;
  for (const py::handle& value : values) flags.push_back(is_true(value));
  return flags;
}

py::object item_of(const py::handle& values, Py_ssize_t index) {
  PyObject* item = PySequence_GetItem(values.ptr(), index);
  if (item == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(item);
}

}  // namespace
}  // namespace opsmith::bridge
