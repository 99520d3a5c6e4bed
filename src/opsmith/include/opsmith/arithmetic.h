// The arithmetic of sizes in generated code: of the shapes in a binding, and of the launch of a kernel compiled ahead.
#pragma once

#include <cstdint>

namespace opsmith {
namespace binding {

// The arithmetic of a size's expression; it rounds as Python does. Where the result does not fit into 64 bits it throws
// NoSize, which Operator::size and launchers catch: a kernel would trust a size that has wrapped, and the processor
// traps when -2^63 is divided by -1.
struct NoSize {
  const char* why;
};
[[gnu::cold, gnu::noinline, noreturn]] inline void no_size(const char* why) { throw NoSize{why}; }
[[gnu::cold, gnu::noinline, noreturn]] inline void too_large() { no_size("does not fit into 64 bits"); }

inline int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) too_large();
  return sum;
}
inline int64_t subtract(int64_t a, int64_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a, b, &difference)) too_large();
  return difference;
}
inline int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) too_large();
  return product;
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0) no_size("divides by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) no_size("divides by zero");
  if (b == -1) return subtract(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t min_of(int64_t a, int64_t b) { return b < a ? b : a; }
inline int64_t max_of(int64_t a, int64_t b) { return a < b ? b : a; }

}  // namespace binding
}  // namespace opsmith
