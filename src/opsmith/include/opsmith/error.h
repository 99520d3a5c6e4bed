// How a kernel refuses its arguments: fail("top_k(): k is ", k, ", but x has ", n, " columns").
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <type_traits>
#include <utility>

namespace opsmith {

// What fail() throws; the binding hands the text on as the Python exception's. It is not a std::runtime_error because
// <stdexcept> brings in <string>: 0.1 s in every kernel's compilation, more than all of this library's headers.
class Error : public std::exception {
 public:
  const char* what() const noexcept override { return text_; }

  void append(const char* part) noexcept { advance(std::snprintf(text_ + length_, room(), "%s", part)); }

  // A std::string or std::string_view, as a native kernel has them, whose headers are not included for it.
  template <class Text,
            class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Text>().data()), const char*>>>
  void append(const Text& part) noexcept {
    const int most = part.size() < capacity ? static_cast<int>(part.size()) : capacity;
    advance(std::snprintf(text_ + length_, room(), "%.*s", most, static_cast<const char*>(part.data())));
  }

  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  void append(Number part) noexcept {
    if constexpr (std::is_floating_point_v<Number>) {
      advance(std::snprintf(text_ + length_, room(), "%g", static_cast<double>(part)));
    } else {
      advance(std::snprintf(text_ + length_, room(), "%lld", static_cast<long long>(part)));
    }
  }

 private:
  static constexpr int capacity = 1024;  // a longer text is cut

  int room() const { return capacity - length_; }
  void advance(int written) { length_ = written < room() ? length_ + (written > 0 ? written : 0) : capacity - 1; }

  char text_[capacity] = "";
  int length_ = 0;
};

// Throws an Error whose text is the parts (strings and numbers) one after another. For host code only.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  Error error;
  (error.append(parts), ...);
  throw error;
}

}  // namespace opsmith
