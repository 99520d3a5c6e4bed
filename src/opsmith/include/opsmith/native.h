// What a native kernel includes: torch's stable tensors, opsmith's views, and a way to call any operator of PyTorch.
//
// A native kernel is a function at global scope over Tensor. It allocates its outputs itself; its inputs have passed
// the checks of the definition, and its outputs are checked afterwards. On a GPU the device of the inputs is current.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "kernel.h"
#include "tensor.h"
#include "torch_error.h"

namespace opsmith {

// Calls `name` of PyTorch's dispatcher, such as call<1>("aten::mm", "", a, b)[0]. All arguments of the schema must be
// given, with exactly its types: Tensor, int64_t, double, bool, std::vector<...>, std::optional<...> (a Scalar cannot
// be said in the stable ABI). Below autograd, as every kernel is; a failure of the operator is thrown as its own error.
template <int Results, class... Arguments>
std::array<Tensor, Results> call(const char* name, const char* overload, const Arguments&... arguments) {
  constexpr int count = sizeof...(Arguments) > Results ? sizeof...(Arguments) : Results;
  std::array<StableIValue, count> stack{torch::stable::detail::from(arguments)...};
  if (torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION) != AOTI_TORCH_SUCCESS) {
    torch_failed("the call of ", name, " failed");
  }
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Tensor, Results>{torch::stable::detail::to<Tensor>(stack[I])...};
  }(std::make_index_sequence<Results>{});
}

// Calls f with a value of a floating-point element type, so that f knows the type: T in [&](auto element) { using T =
// decltype(element); ... }. For tensors that the definition declares as Float: nothing else comes in.
template <class F>
void with_floating_type(ScalarType type, const F& f) {
  switch (type) {
    case ScalarType::Half:
      return f(float16{});
    case ScalarType::BFloat16:
      return f(bfloat16{});
    case ScalarType::Float:
      return f(float{});
    case ScalarType::Double:
      return f(double{});
    default:
      fail("with_floating_type() takes floating-point types of 16, 32 and 64 bits");
  }
}

// An argument that converts to its own type alone. The generated code calls native kernels with it, so that a kernel
// with another type of number does not compile instead of getting a narrowed one.
template <class T>
struct Exactly {
  T value;

  template <class U, class = std::enable_if_t<std::is_same_v<U, T>>>
  operator U() const {
    return value;
  }
};
template <class T>
Exactly(T) -> Exactly<T>;

namespace detail {
inline Tensor empty_on_device_of(const Tensor& other, const std::vector<int64_t>& sizes, int32_t dtype) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (std::size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = next;
    next *= sizes[dim] > 1 ? sizes[dim] : 1;
  }
  int32_t device_type, device_index;
  AtenTensorHandle result = nullptr;
  if (aoti_torch_get_device_type(other.get(), &device_type) != 0 ||
      aoti_torch_get_device_index(other.get(), &device_index) != 0 ||
      aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype, device_type,
                               device_index, &result) != 0) {
    torch_failed("a result cannot be allocated");
  }
  return Tensor(result);
}
}  // namespace detail

// An uninitialised tensor with the element type and device of another, contiguous. By torch's C function, because a
// call by name looks the name up and boxes its arguments each time, and a backward makes a handful of these.
inline Tensor empty_like(const Tensor& other, const std::vector<int64_t>& sizes) {
  int32_t dtype;
  if (aoti_torch_get_dtype(other.get(), &dtype) != 0) torch_failed("a tensor cannot be read");
  return detail::empty_on_device_of(other, sizes, dtype);
}

// The same with an element type of its own.
inline Tensor empty_like(const Tensor& other, const std::vector<int64_t>& sizes, ScalarType type) {
  return detail::empty_on_device_of(other, sizes,
                                    torch::stable::detail::to<int32_t>(torch::stable::detail::from(type)));
}

// The same with the sizes of the other. (torch::stable::empty_like keeps its strides, and is a call by name.)
inline Tensor contiguous_like(const Tensor& other) {
  return empty_like(other, {other.sizes().begin(), other.sizes().end()});
}

// The place of an input's gradient; without elements where nobody asks for it (see needs_grad_<input>).
inline Tensor gradient_like(const Tensor& input, bool is_needed = true) {
  return is_needed ? contiguous_like(input) : empty_like(input, std::vector<int64_t>(input.dim(), 0));
}

// What most native kernels call of PyTorch beside what torch::stable has.
namespace aten {

inline Tensor mm(const Tensor& a, const Tensor& b) { return call<1>("aten::mm", "", a, b)[0]; }

inline Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return call<1>("aten::linear", "", input, weight, std::optional<Tensor>(bias))[0];
}

inline Tensor transposed(const Tensor& matrix) { return torch::stable::transpose(matrix, 0, 1); }

// The sums of a matrix's columns.
inline Tensor sum_rows(const Tensor& matrix) {
  const std::optional<std::vector<int64_t>> over_rows = std::vector<int64_t>{0};
  return call<1>("aten::sum", "dim_IntList", matrix, over_rows, false, std::optional<ScalarType>())[0];
}

}  // namespace aten

}  // namespace opsmith
