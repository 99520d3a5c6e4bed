// What a generated binding is made of: the checks of a call's arguments, the allocation of its outputs, and the views.
//
// A binding is generated for each operator; whatever does not depend on the definition is here, once. Messages are
// those of opsmith's Python side, which raises them as typed exceptions.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "cpu.h"
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

using Sizes = std::vector<int64_t>;

// A size that has a name: for the end of a message, "with S = 128 (from cell)".
struct Named {
  const char* name;
  int64_t value;
  const char* source;
};

inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) fail("a size divides by zero");
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

inline const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Bool:
      return "bool";
    default:
      return "of another element type";
  }
}

inline std::string describe(std::initializer_list<Named> names) {
  std::string text;
  for (const Named& named : names) {
    text += text.empty() ? " with " : ", ";
    text += named.name + (" = " + std::to_string(named.value)) + " (" + named.source + ")";
  }
  return text;
}

// Where a call's tensors lie.
struct Place {
  int32_t type;
  int32_t index;

  explicit Place(const Tensor& tensor) {
    aoti_torch_get_device_type(tensor.get(), &type);
    aoti_torch_get_device_index(tensor.get(), &index);
  }
  bool operator==(const Place& other) const { return type == other.type && index == other.index; }
  std::string text() const { return type == aoti_torch_device_type_cpu() ? "cpu" : "cuda:" + std::to_string(index); }
};

// The name of the operator, for every message of a call.
struct Operator {
  const char* name;

  void check_place(const char* argument, const Tensor& tensor, const char* first, const Place& expected) const {
    const Place found(tensor);
    if (!(found == expected)) {
      fail(name, "(): ", argument, " is on ", found.text().c_str(), ", but ", first, " is on ",
           expected.text().c_str());
    }
  }

  void check_defined(const char* output, const Tensor& tensor) const {
    if (!tensor.defined()) fail(name, "(): the output ", output, " is an undefined tensor");
  }

  void check_rank(const char* argument, const Tensor& tensor, int64_t rank, bool at_least, const char* type) const {
    const int64_t found = tensor.dim();
    if (at_least ? found < rank : found != rank) {
      fail(name, "(): ", argument, " has ", found, found == 1 ? " dimension" : " dimensions", ", expected ",
           at_least ? "at least " : "", rank, ": ", type);
    }
  }

  void check_size(const char* argument, const Tensor& tensor, int64_t axis, int64_t expected, const char* expression,
                  std::initializer_list<Named> names) const {
    const int64_t found = size(tensor, axis);
    if (found != expected) {
      fail(name, "(): ", argument, " has size ", found, " in dimension ", axis < 0 ? axis + tensor.dim() : axis,
           ", expected ", expression, expression_is_number(expression) ? "" : " = ",
           expression_is_number(expression) ? "" : std::to_string(expected).c_str(), describe(names).c_str());
    }
  }

  // The value of a name for which the size of an axis is scale * name + offset.
  int64_t solve(const char* argument, const Tensor& tensor, int64_t axis, int64_t scale, int64_t offset,
                const char* expression, const char* unknown) const {
    const int64_t found = size(tensor, axis);
    if (scale == 0 || (found - offset) % scale != 0 || (found - offset) / scale < 0) {
      fail(name, "(): ", argument, " has size ", found, " in dimension ", axis < 0 ? axis + tensor.dim() : axis,
           ", which is not ", expression, " for any ", unknown);
    }
    return (found - offset) / scale;
  }

  void check_group(const char* argument, const Tensor& tensor, int64_t begin, int64_t behind, const Sizes& expected,
                   const char* group, const char* source) const {
    if (sizes_of_group(tensor, begin, behind) != expected) {
      fail(name, "(): ", argument, " has the sizes ", text_of(sizes_of_group(tensor, begin, behind)).c_str(), " for *",
           group, ", expected ", text_of(expected).c_str(), " (from ", source, ")");
    }
  }

  void check_dtype(const char* argument, const Tensor& tensor, std::initializer_list<ScalarType> allowed,
                   const char* names) const {
    const ScalarType found = tensor.scalar_type();
    if (std::find(allowed.begin(), allowed.end(), found) == allowed.end()) {
      fail(name, "(): ", argument, " is ", name_of(found), ", expected ", names);
    }
  }

  void check_same_dtype(const char* argument, const Tensor& tensor, const char* first, ScalarType expected) const {
    const ScalarType found = tensor.scalar_type();
    if (found != expected) {
      fail(name, "(): ", argument, " is ", name_of(found), ", expected ", name_of(expected), " as ", first);
    }
  }

  void check_output_size(const char* output, int64_t axis, int64_t value, const char* expression,
                         std::initializer_list<Named> names) const {
    if (value < 0) {
      fail(name, "(): the output ", output, " would have size ", value, " in dimension ", axis, ": ", expression,
           describe(names).c_str());
    }
  }

  // An argument that is written to must have a place of its own for each element.
  void check_writable(const char* argument, const Tensor& tensor) const {
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) {
        fail(name, "(): ", argument, " is written to, but it is expanded: several of its elements share one place");
      }
    }
  }

  void check_not_empty(const char* argument, const std::vector<Tensor>& tensors) const {
    if (tensors.empty()) fail(name, "(): ", argument, " is an empty list, and sizes are taken from its tensors");
  }

  static int64_t size(const Tensor& tensor, int64_t axis) { return tensor.size(axis); }

  static Sizes sizes_of_group(const Tensor& tensor, int64_t begin, int64_t behind) {
    const auto sizes = tensor.sizes();
    return Sizes(sizes.begin() + begin, sizes.end() - behind);
  }

 private:
  static bool expression_is_number(const char* expression) {
    return *expression >= '0' && *expression <= '9' &&
           std::string(expression).find_first_not_of("0123456789") == std::string::npos;
  }

  static std::string text_of(const Sizes& sizes) {
    std::string text = "(";
    for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
    return text + ")";
  }
};

// The first tensor of a list; sizes and element type are taken from it.
inline const Tensor& first_of(const std::vector<Tensor>& tensors) { return tensors.front(); }

// Layout ----------------------------------------------------------------------------------------------------------

inline Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = next;
    next *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

// Strides for `order`, innermost dimension first.
inline Sizes strides_in_order(const Sizes& sizes, std::initializer_list<int> order) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (int dim : order) {
    strides[dim] = next;
    next *= sizes[dim];  // unlike row-major strides, those of torch's channels_last become 0 behind an empty dimension
  }
  return strides;
}

inline bool has_strides_in_order(const Tensor& tensor, std::initializer_list<int> order) {
  int64_t next = 1;
  for (int dim : order) {
    if (tensor.size(dim) == 1) continue;
    if (tensor.stride(dim) != next) return false;
    next *= tensor.size(dim);
  }
  return true;
}

// The strides of an output that keeps the memory format of an input: channels_last where the input is so, else
// row-major.
inline Sizes strides_like(const Tensor& input, const Sizes& sizes) {
  if (!input.is_contiguous()) {
    if (sizes.size() == 4 && has_strides_in_order(input, {1, 3, 2, 0})) return strides_in_order(sizes, {1, 3, 2, 0});
    if (sizes.size() == 5 && has_strides_in_order(input, {1, 4, 3, 2, 0})) {
      return strides_in_order(sizes, {1, 4, 3, 2, 0});
    }
  }
  return contiguous_strides(sizes);
}

inline Tensor allocate(const Place& place, ScalarType type, const Sizes& sizes, const Sizes& strides) {
  AtenTensorHandle handle = nullptr;
  const auto code = static_cast<int32_t>(torch::stable::detail::from(type));
  if (aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), code, place.type,
                               place.index, &handle) != AOTI_TORCH_SUCCESS) {
    fail("an output cannot be allocated; torch's message stands above");
  }
  return Tensor(handle);
}

inline Tensor allocate(const Place& place, ScalarType type, const Sizes& sizes) {
  return allocate(place, type, sizes, contiguous_strides(sizes));
}

inline bool is_empty(const Tensor& tensor) { return tensor.numel() == 0; }

inline Tensor as_contiguous(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}
inline std::optional<Tensor> as_contiguous(const std::optional<Tensor>& tensor) {
  return tensor ? std::optional<Tensor>(as_contiguous(*tensor)) : std::nullopt;
}
inline std::vector<Tensor> as_contiguous(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = as_contiguous(tensor);
  return tensors;
}

// Gives an argument that was copied to be made contiguous what the kernel wrote.
inline void copy_back(Tensor& argument, const Tensor& copy) {
  if (argument.get() != copy.get()) torch::stable::copy_(argument, copy);
}
inline void copy_back(std::optional<Tensor>& argument, const std::optional<Tensor>& copy) {
  if (argument) copy_back(*argument, *copy);
}

// Elementwise operators ----------------------------------------------------------------------------------------------

// Whether the elements fill one block of memory, each place once, in whatever order of dimensions.
inline bool is_dense(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size)
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) != 1) dims.emplace_back(tensor.stride(dim), tensor.size(dim));
  }
  std::sort(dims.begin(), dims.end());
  int64_t next = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

inline bool have_equal_strides(const Tensor& a, const Tensor& b) {
  for (int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) != 1 && a.stride(dim) != b.stride(dim)) return false;
  }
  return true;
}

enum class Layout { row_major, dense, mixed };

// How the inputs of an elementwise operator, which have equal sizes, lie in memory. `dense`: all alike, in an order of
// dimensions other than row-major (a transposed or channels_last tensor); the outputs then get the same strides.
inline Layout common_layout(std::initializer_list<const Tensor*> inputs) {
  const Tensor& first = **inputs.begin();
  bool all_contiguous = true;
  for (const Tensor* input : inputs) all_contiguous = all_contiguous && input->is_contiguous();
  if (all_contiguous) return Layout::row_major;
  for (const Tensor* input : inputs) {
    if (is_empty(*input) || !is_dense(*input) || !have_equal_strides(first, *input)) return Layout::mixed;
  }
  return Layout::dense;
}

// A tensor that fills one block of memory, as one dimension.
template <class T>
View<T, 1> flat_view(const Tensor& tensor) {
  View<T, 1> result{};
  result.data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
  result.size[0] = tensor.numel();
  result.stride[0] = 1;
  return result;
}
template <class T>
View<T, 1> flat_view(const std::optional<Tensor>& tensor) {
  return tensor ? flat_view<T>(*tensor) : View<T, 1>{};
}

// Variadic groups ----------------------------------------------------------------------------------------------------

// The tensor itself where the dimensions of its variadic group can be seen as one, else a contiguous copy.
inline Tensor mergeable(const Tensor& tensor, int64_t begin, int64_t behind) {
  const int64_t end = tensor.dim() - behind;
  int64_t expected = -1;
  for (int64_t dim = end - 1; dim >= begin; --dim) {
    if (tensor.size(dim) == 1) continue;
    if (expected >= 0 && tensor.stride(dim) != expected) return torch::stable::contiguous(tensor);
    expected = tensor.stride(dim) * tensor.size(dim);
  }
  return tensor;
}
inline std::optional<Tensor> mergeable(const std::optional<Tensor>& tensor, int64_t begin, int64_t behind) {
  return tensor ? std::optional<Tensor>(mergeable(*tensor, begin, behind)) : std::nullopt;
}

// The view of a tensor whose dimensions [begin, dim - behind) are seen as one.
template <class T, int N>
View<T, N> group_view(const Tensor& tensor, int64_t begin, int64_t behind) {
  View<T, N> result{};
  result.data = static_cast<T*>(const_cast<void*>(tensor.const_data_ptr()));
  const int64_t end = tensor.dim() - behind;
  for (int64_t dim = 0; dim < begin; ++dim) {
    result.size[dim] = tensor.size(dim);
    result.stride[dim] = tensor.stride(dim);
  }
  result.size[begin] = 1;
  result.stride[begin] = 1;
  for (int64_t dim = end - 1; dim >= begin; --dim) {
    if (tensor.size(dim) == 1) continue;
    if (result.size[begin] == 1) result.stride[begin] = tensor.stride(dim);
    result.size[begin] *= tensor.size(dim);
  }
  for (int64_t dim = 0; dim < behind; ++dim) {
    result.size[begin + 1 + dim] = tensor.size(end + dim);
    result.stride[begin + 1 + dim] = tensor.stride(end + dim);
  }
  return result;
}
template <class T, int N>
View<T, N> group_view(const std::optional<Tensor>& tensor, int64_t begin, int64_t behind) {
  return tensor ? group_view<T, N>(*tensor, begin, behind) : View<T, N>{};
}

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
