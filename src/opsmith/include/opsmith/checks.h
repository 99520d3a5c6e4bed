// How a generated binding refuses a call: the words for each way in which arguments or results do not fit.
//
// The conditions stand in the binding. The words are those of opsmith's Python side, which raises them as typed
// exceptions; runtime/arguments.py is its twin. None of this is on the way of a call that fits.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>

#include "error.h"
#include "held.h"
#include "sizes.h"

namespace opsmith {
namespace binding {

// Whether an element type is one of those allowed.
template <class... Types>
bool is_one_of(int32_t dtype, const Types&... allowed) {
  return ((dtype == allowed) || ...);
}

[[gnu::cold, gnu::noinline]] inline const char* name_of(int32_t dtype) {
  const struct {
    int32_t dtype;
    const char* name;
  } names[] = {
      {dtypes::float16, "float16"}, {dtypes::bfloat16, "bfloat16"}, {dtypes::float32, "float32"},
      {dtypes::float64, "float64"}, {dtypes::uint8, "uint8"},       {dtypes::int8, "int8"},
      {dtypes::int16, "int16"},     {dtypes::int32, "int32"},       {dtypes::int64, "int64"},
      {dtypes::bool_, "bool"},
  };
  for (const auto& entry : names) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "of another element type";
}

// A size that has a name: for the end of a message, "with S = 128 (from cell)".
struct Named {
  const char* name;
  int64_t value;
  const char* source;
};
using Names = std::initializer_list<Named>;

// A message in the making. Nothing here is inlined or worth optimising: a binding has dozens of refusals to compile.
class Message {
 public:
  [[gnu::cold, gnu::noinline]] explicit Message(const char* operator_name) { *this << operator_name << "(): "; }

  [[gnu::cold, gnu::noinline]] Message& operator<<(const char* text) {
    error_.append(text);
    return *this;
  }
  [[gnu::cold, gnu::noinline]] Message& operator<<(int64_t number) {
    error_.append(number);
    return *this;
  }
  [[gnu::cold, gnu::noinline]] Message& operator<<(Names names) {
    const char* before = " with ";
    for (const Named& named : names) {
      *this << before << named.name << " = " << named.value << " (" << named.source << ")";
      before = ", ";
    }
    return *this;
  }
  [[gnu::cold, gnu::noinline]] Message& operator<<(const Sizes& sizes) {
    *this << "(";
    for (int64_t index = 0; index < sizes.count; ++index) *this << (index == 0 ? "" : ", ") << sizes.item[index];
    return *this << ")";
  }
  [[gnu::cold, gnu::noinline]] Message& operator<<(const DeviceId& device) {
    return device.is_cpu() ? *this << "cpu" : *this << "cuda:" << int64_t{device.index};
  }

  [[gnu::cold, gnu::noinline, noreturn]] void raise() const { throw error_; }

 private:
  Error error_;
};

// The name of the operator, for every message of a call.
struct Operator {
  const char* name;

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_device(const char* argument, const Held& tensor, const char* first,
                                                            const DeviceId& expected) const {
    Message message(name);
    message << argument << " is on " << tensor.device << ", but " << first << " is on " << expected;
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_undefined(const char* output) const {
    Message message(name);
    message << "the output " << output << " is an undefined tensor";
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_rank(const char* argument, const Held& tensor, int64_t rank,
                                                          bool at_least, const char* type) const {
    Message message(name);
    message << argument << " has " << tensor.rank << (tensor.rank == 1 ? " dimension" : " dimensions") << ", expected "
            << (at_least ? "at least " : "") << rank << ": " << type;
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_size(const char* argument, const Held& tensor, int64_t axis,
                                                          int64_t expected, const char* expression, Names names) const {
    Message message(name);
    message << argument << " has size " << tensor.size(axis) << " in dimension "
            << (axis < 0 ? axis + tensor.rank : axis) << ", expected " << expression;
    if (!is_number(expression)) message << " = " << expected;
    if (names.size() == 1 && are_equal(expression, names.begin()->name)) {
      message << " (" << names.begin()->source << ")";  // its value stands there already
    } else {
      message << names;
    }
    message.raise();
  }

  // Returns what `compute` returns: the value of a size's expression.
  template <class Compute>
  int64_t size(Compute compute, const char* expression, Names names) const {
    try {
      return compute();
    } catch (const NoSize& error) {
      refuse_arithmetic(error.why, expression, names);
    }
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_arithmetic(const char* why, const char* expression,
                                                                Names names) const {
    Message message(name);
    message << "the size " << expression << " " << why;
    const char* before = " with ";
    for (const Named& named : names) {
      message << before << named.name << " = " << named.value;
      before = ", ";
    }
    message.raise();
  }

  // The value of a name for which the size of an axis is scale * name + offset.
  int64_t solve(const char* argument, const Held& tensor, int64_t axis, int64_t scale, int64_t offset,
                const char* expression, const char* unknown) const {
    int64_t rest;
    // A size is not negative, so the rest is above -2^63 and its division by -1 has a result.
    if (__builtin_sub_overflow(tensor.size(axis), offset, &rest) || scale == 0 || rest % scale != 0 ||
        rest / scale < 0) {
      refuse_unsolvable(argument, tensor, axis, expression, unknown);
    }
    return rest / scale;
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_unsolvable(const char* argument, const Held& tensor, int64_t axis,
                                                                const char* expression, const char* unknown) const {
    Message message(name);
    message << argument << " has size " << tensor.size(axis) << " in dimension "
            << (axis < 0 ? axis + tensor.rank : axis) << ", which is not " << expression << " for any " << unknown;
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_group(const char* argument, const Held& tensor, int64_t begin,
                                                           int64_t behind, const Sizes& expected, const char* group,
                                                           const char* source) const {
    Message message(name);
    message << argument << " has the sizes " << group_sizes(tensor, begin, behind) << " for *" << group << ", expected "
            << expected << " (from " << source << ")";
    if (begin == 0 && behind == 0 && can_broadcast(group_sizes(tensor, 0, 0), expected)) {
      message << "; sizes are not broadcast here: pass what torch.broadcast_tensors returns";
    }
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_dtype(const char* argument, const Held& tensor,
                                                           const char* names) const {
    Message message(name);
    message << argument << " is " << name_of(tensor.dtype) << ", expected " << names;
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_other_dtype(const char* argument, const Held& tensor,
                                                                 const char* first, int32_t expected) const {
    Message message(name);
    message << argument << " is " << name_of(tensor.dtype) << ", expected " << name_of(expected) << " as " << first;
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_output_size(const char* output, int64_t axis, int64_t value,
                                                                 const char* expression, Names names) const {
    Message message(name);
    message << "the output " << output << " would have size " << value << " in dimension " << axis << ": " << expression
            << names;
    message.raise();
  }

  // What a native kernel returns for an output that is not needed has no elements.
  [[gnu::cold, gnu::noinline, noreturn]] void refuse_unneeded(const char* output, const Held& tensor,
                                                              const Sizes& expected, const char* flag) const {
    Message message(name);
    message << output << " has the sizes " << group_sizes(tensor, 0, 0) << ", expected " << expected
            << ": it is not needed, as " << flag << " says";
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_expanded(const char* argument) const {
    Message message(name);
    message << argument << " is written to, but it is expanded: several of its elements share one address";
    message.raise();
  }

  // Throws again what is being handled, with the operator's name where its text does not have that: it may come from
  // a helper that several operators share, or from PyTorch.
  [[gnu::cold, gnu::noinline, noreturn]] void rethrow(const std::exception& error) const {
    if (std::strstr(error.what(), name) != nullptr) throw;
    fail(name, "(): ", error.what());
  }

  // Where PyTorch would say no more than "std::bad_alloc".
  [[gnu::cold, gnu::noinline, noreturn]] void refuse_memory() const {
    fail(name, "(): there is not enough memory for what the kernel allocates");
  }

  // For what a kernel throws that is not a std::exception: PyTorch makes a Python exception of nothing else, and the
  // process would end.
  [[gnu::cold, gnu::noinline, noreturn]] void refuse_exception() const {
    Message message(name);
    message << "the kernel threw something that is not a std::exception; call fail(...) of <opsmith/error.h>";
    message.raise();
  }

  [[gnu::cold, gnu::noinline, noreturn]] void refuse_empty_list(const char* argument) const {
    Message message(name);
    message << argument << " is an empty list, and sizes are taken from its tensors";
    message.raise();
  }

 private:
  static bool are_equal(const char* one, const char* other) {
    while (*one != '\0' && *one == *other) ++one, ++other;
    return *one == *other;
  }

  static bool is_number(const char* expression) {
    for (const char* c = expression; *c != '\0'; ++c) {
      if (*c < '0' || *c > '9') return false;
    }
    return true;
  }
};

// Whether several elements of a tensor share an address, so that it cannot be written to.
inline bool is_expanded(const Held& tensor) {
  for (int64_t dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.strides[dim] == 0 && tensor.sizes[dim] > 1) return true;
  }
  return false;
}

}  // namespace binding
}  // namespace opsmith
