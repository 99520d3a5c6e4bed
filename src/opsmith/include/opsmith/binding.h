// What a generated binding includes. A binding is generated for each operator; whatever does not depend on the
// definition is in these headers, once:
//
//   checks.h   the checks of a call's arguments
//   layout.h   the allocation of outputs, and the views of inputs in whatever layout
//   binding.h  lists and optional arguments as kernels take them; device, stream and threads of a call
#pragma once

#include "checks.h"
#include "cpu.h"
#include "layout.h"
#include "tensor.h"

namespace opsmith {

// The only definition of the function behind parallel_for: PyTorch's own threads.
namespace detail {
void parallel_run(int64_t begin, int64_t end, int64_t grain, void (*fn)(int64_t, int64_t, void*), void* context) {
  torch_parallel_for(begin, end, grain, fn, context);
}
}  // namespace detail

namespace binding {

enum class Device { cpu, cuda };

// The first tensor of a list; sizes and element type are taken from it.
inline const Tensor& first_of(const std::vector<Tensor>& tensors) { return tensors.front(); }

template <class T, int N>
std::vector<View<T, N>> views(const std::vector<Tensor>& tensors) {
  std::vector<View<T, N>> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(view<T, N>(tensor));
  return result;
}

template <class T, int N>
ViewList<T, N> list_of(const std::vector<View<T, N>>& views) {
  return {views.data(), static_cast<int64_t>(views.size())};
}

template <class T>
Optional<T> optional_of(const std::optional<T>& value) {
  return {value.has_value(), value.value_or(T{})};
}

template <class T>
List<T> list_of(const std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size())};
}

// The device of a call's tensors, made current for the length of the call, and its stream.
template <Device device>
struct Launch;

template <>
struct Launch<Device::cpu> {
  explicit Launch(const Place&) {}
};

template <>
struct Launch<Device::cuda> {
  explicit Launch(const Place& place) : guard(place.index), stream(current_stream(place.index)) {}
  torch::stable::accelerator::DeviceGuard guard;
  void* stream;
};

}  // namespace binding
}  // namespace opsmith
