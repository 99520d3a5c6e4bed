// How C++ reads the tensors that Python gives it, and gives Python its own.
#pragma once

#include <memory>

#include "object.h"
#include "torch_python.h"

namespace opsmith::bridge {
namespace {

// torch.Tensor and torch.nn.Parameter. A parameter is a tensor that Python keeps books about, nothing more.
struct TensorTypes {
  Object tensor = attribute_of(Object::take(PyImport_ImportModule("torch")), "Tensor");
  Object parameter = attribute_of(Object::take(PyImport_ImportModule("torch.nn")), "Parameter");
};

// Kept for good: Python may be gone when static objects are destroyed.
const TensorTypes* tensor_types = nullptr;

// Finds the types as the module is imported. No static initialiser does so at the first call: an import may give the
// GIL away, to a thread that would then wait for the initialiser and never give it back.
void find_tensor_types() {
  auto found = std::make_unique<TensorTypes>();
  if (tensor_types == nullptr) tensor_types = found.release();
}

// Whether an object is a tensor and of no subclass, which could behave in another way.
bool is_plain_tensor(PyObject* value) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  return type == tensor_types->tensor.get() || type == tensor_types->parameter.get();
}

at::Tensor tensor_of(PyObject* value) {
  pybind11::detail::type_caster<at::Tensor> caster;
  if (!caster.load(value, /*convert=*/false)) {
    PyErr_SetString(PyExc_TypeError, "a tensor was expected");
    throw ErrorIsSet();
  }
  return std::move(caster.value);
}

// The Python object of a tensor, or of a symbolic number; None for an undefined tensor.
template <class T>
Object to_object(const T& value) {
  using pybind11::return_value_policy;
  return Object::take(pybind11::detail::type_caster<T>::cast(value, return_value_policy::automatic, nullptr).ptr());
}

}  // namespace
}  // namespace opsmith::bridge
