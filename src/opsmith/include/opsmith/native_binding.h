// What a generated binding with native kernels includes: the way between the C ABI, in which arguments and results come
// and go, and torch's stable C++ tensors, which native kernels take and return.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tensor.h"
//
#include "binding.h"

namespace opsmith {
namespace binding {

// A tensor as a native kernel takes it. What was read of it stays true for as long as the kernel's tensor is there.
inline Tensor native(Held& tensor) { return Tensor(to_tensor(tensor.release())); }

inline std::optional<Tensor> native_optional(Held& tensor) {
  if (!tensor) return std::nullopt;
  return native(tensor);
}

inline std::vector<Tensor> native(HeldList& tensors) {
  std::vector<Tensor> result;
  result.reserve(static_cast<size_t>(tensors.count()));
  for (Held& tensor : tensors) result.push_back(native(tensor));
  return result;
}

inline std::string native(const HeldText& text) { return {text.text(), text.length()}; }

template <class T>
std::vector<T> native(const HeldNumbers<T>& numbers) {
  return {numbers.list().begin(), numbers.list().end()};
}

template <class T>
std::optional<T> native(const Optional<T>& number) {
  return number ? std::optional<T>(*number) : std::nullopt;
}

// A reference of its own to a tensor that a native kernel returned.
inline AtenTensorHandle handle_of(const Tensor& tensor) {
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_new_tensor_handle(tensor.get(), &handle) != 0) fail("a result cannot be returned");
  return handle;
}

}  // namespace binding
}  // namespace opsmith
