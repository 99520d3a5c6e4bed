// The checks of a call's arguments in a generated binding, and the words of their refusals.
//
// Messages are those of opsmith's Python side, which raises them as typed exceptions; runtime/arguments.py is its twin.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "tensor.h"

namespace opsmith {
namespace binding {

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
  bool is_cpu() const { return type == aoti_torch_device_type_cpu(); }
  // There is one CPU: PyTorch gives its tensors the index -1, and 0 to those that were asked for on "cpu:0".
  bool operator==(const Place& other) const { return type == other.type && (is_cpu() || index == other.index); }
  std::string text() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }
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

  // What a native kernel returns for an output that is not needed has no elements.
  void check_skipped(const char* output, const Tensor& tensor, size_t rank, const char* flag) const {
    bool empty = tensor.dim() == static_cast<int64_t>(rank);
    for (int64_t size : tensor.sizes()) empty = empty && size == 0;
    if (!empty) {
      fail(name, "(): ", output, " has the sizes ", text_of(sizes_of_group(tensor, 0, 0)).c_str(), ", expected ",
           text_of(Sizes(rank)).c_str(), ": it is not needed, as ", flag, " says");
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

}  // namespace binding
}  // namespace opsmith
