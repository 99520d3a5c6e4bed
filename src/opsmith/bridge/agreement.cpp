// Holds what torch_python.h declares by hand against PyTorch's own headers: the bridge is not built where they differ.
//
// It is compiled with the bridge and not linked into it: the code of those headers is for one version of Python.
#undef Py_LIMITED_API
#define OPSMITH_COMPARES_DECLARATIONS
#include "torch_python.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <type_traits>

namespace {

using opsmith::bridge::kErrorMessageOffset;
using opsmith::bridge::kErrorSize;
using opsmith::bridge::kErrorTypeOffset;
using opsmith::bridge::kWarningHandlerSize;
using pybind11::handle;
using pybind11::return_value_policy;
using TensorCaster = pybind11::detail::type_caster<at::Tensor>;

static_assert(sizeof(handle) == sizeof(PyObject*) && std::is_trivially_copyable_v<handle>);
static_assert(std::is_same_v<std::underlying_type_t<return_value_policy>, uint8_t>);
static_assert(return_value_policy::automatic == return_value_policy(0));

static_assert(std::is_same_v<decltype(&TensorCaster::load), bool (TensorCaster::*)(handle, bool)>);
static_assert(sizeof(TensorCaster) == sizeof(at::Tensor) && !std::is_polymorphic_v<TensorCaster>);
template <class T>
using Cast = handle (*)(const T&, return_value_policy, handle);
constexpr Cast<at::Tensor> kTensorCast = &TensorCaster::cast;
constexpr Cast<c10::SymInt> kIntCast = &pybind11::detail::type_caster<c10::SymInt>::cast;
constexpr Cast<c10::SymFloat> kFloatCast = &pybind11::detail::type_caster<c10::SymFloat>::cast;

#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // of a class with a virtual function, where compilers support it
static_assert(std::is_base_of_v<std::exception, python_error> && sizeof(python_error) == kErrorSize);
static_assert(offsetof(python_error, type) == kErrorTypeOffset);
static_assert(offsetof(python_error, value) == kErrorTypeOffset + sizeof(PyObject*));
static_assert(offsetof(python_error, traceback) == kErrorTypeOffset + 2 * sizeof(PyObject*));
static_assert(offsetof(python_error, message) == kErrorMessageOffset);
static_assert(std::is_same_v<decltype(python_error::message), std::string>);

static_assert(std::is_same_v<decltype(&torch::translate_exception_to_python), void (*)(const std::exception_ptr&)>);
static_assert(sizeof(torch::PyWarningHandler) == kWarningHandlerSize && alignof(torch::PyWarningHandler) == 8);
static_assert(!std::is_polymorphic_v<torch::PyWarningHandler>);

}  // namespace
