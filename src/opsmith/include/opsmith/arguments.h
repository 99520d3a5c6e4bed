// How a generated binding takes the arguments of a call from the dispatcher's stack: lists, strings, numbers, and what
// may be absent. Single tensors are in held.h, and so is the rule that all of them are made before any is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "held.h"
#include "optional.h"
#include "shims.h"
#include "types.h"
#include "view.h"

namespace opsmith {
namespace binding {

// Some items in memory of its own: in the object itself where they are few.
template <class T>
class Items {
 public:
  Items() = default;
  Items(const Items&) = delete;
  ~Items() {
    if (data_ != few_) delete[] data_;
  }

  void resize(size_t count) {
    if (count > capacity) data_ = new T[count];
    count_ = static_cast<int64_t>(count);
  }

  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + count_; }
  T& operator[](int64_t index) { return data_[index]; }
  const T& operator[](int64_t index) const { return data_[index]; }
  int64_t count() const { return count_; }

 private:
  static constexpr size_t capacity = 8;
  T few_[capacity];
  T* data_ = few_;
  int64_t count_ = 0;
};

// The handle of a list, until its items are taken.
class HeldItems {
 public:
  explicit HeldItems(StableIValue value) noexcept : list_(reinterpret_cast<StableListHandle>(value)) {}
  HeldItems(const HeldItems&) = delete;
  ~HeldItems() {
    if (list_ != nullptr) torch_delete_list(list_);
  }

  // These two cannot fail: the list is one, and the index is in range.
  size_t count() const {
    size_t count = 0;
    torch_list_size(list_, &count);
    return count;
  }
  StableIValue operator[](size_t index) const {
    StableIValue item = 0;
    torch_list_get_item(list_, index, &item);
    return item;
  }

  explicit operator bool() const { return list_ != nullptr; }
  void free() {
    torch_delete_list(list_);
    list_ = nullptr;
  }

 private:
  StableListHandle list_;
};

// A list of tensors.
class HeldList {
 public:
  explicit HeldList(StableIValue value) noexcept : given_(value) {}
  ~HeldList() {
    if (!given_) return;
    for (size_t index = 0, count = given_.count(); index < count; ++index) {
      aoti_torch_delete_tensor_object(reinterpret_cast<AtenTensorHandle>(given_[index]));
    }
  }

  void read() {
    items_.resize(given_.count());
    for (int64_t index = 0; index < items_.count(); ++index) {
      items_[index].take(reinterpret_cast<AtenTensorHandle>(given_[static_cast<size_t>(index)]));
    }
    given_.free();
    for (Held& item : items_) item.read();
  }

  Held* begin() { return items_.begin(); }
  Held* end() { return items_.end(); }
  const Held* begin() const { return items_.begin(); }
  const Held* end() const { return items_.end(); }
  const Held& first() const { return items_[0]; }
  int64_t count() const { return items_.count(); }

 private:
  HeldItems given_;
  Items<Held> items_;
};

// A list of ints or floats.
template <class T>
class HeldNumbers {
 public:
  explicit HeldNumbers(StableIValue value) noexcept : given_(value) {}

  void read() {
    items_.resize(given_.count());
    for (int64_t index = 0; index < items_.count(); ++index) {
      items_[index] = bit_cast<T>(given_[static_cast<size_t>(index)]);
    }
  }

  List<T> list() const { return {items_.begin(), items_.count()}; }

 private:
  HeldItems given_;
  Items<T> items_;
};

class HeldText {
 public:
  explicit HeldText(StableIValue value) noexcept : string_(reinterpret_cast<StringHandle>(value)) {}
  HeldText(const HeldText&) = delete;
  ~HeldText() { torch_delete_string(string_); }

  void read() {
    if (torch_string_c_str(string_, &text_) != 0 || torch_string_length(string_, &length_) != 0) {
      torch_failed("a str cannot be read");
    }
  }

  const char* text() const { return text_; }
  size_t length() const { return length_; }

 private:
  StringHandle string_;
  const char* text_;
  size_t length_;
};

template <class... Arguments>
void read(Arguments&... arguments) {
  (arguments.read(), ...);
}

inline AtenTensorHandle to_tensor(StableIValue value) { return reinterpret_cast<AtenTensorHandle>(value); }

inline AtenTensorHandle to_optional_tensor(StableIValue value) {
  if (value == 0) return nullptr;
  const auto* given = reinterpret_cast<StableIValue*>(value);
  const AtenTensorHandle tensor = to_tensor(*given);
  delete given;
  return tensor;
}

template <class T>
T to_number(StableIValue value) {
  if constexpr (std::is_same_v<T, bool>) {
    return (value & 1) != 0;
  } else {
    return bit_cast<T>(value);
  }
}

template <class T>
Optional<T> to_optional(StableIValue value) {
  if (value == 0) return {};
  const auto* given = reinterpret_cast<StableIValue*>(value);
  const T number = to_number<T>(*given);
  delete given;
  return {true, number};
}

}  // namespace binding
}  // namespace opsmith
