// A number that several threads read and write, for headers that every kernel includes: in C++20 the header <atomic>
// takes g++ 12 half a second, as long as all else that a small kernel is compiled for.
#pragma once

namespace opsmith {

// Each access is whole, and all threads see the same order of those to one Atomic. Only exchange() says anything about
// the memory around it: what a thread wrote before its exchange, the one whose exchange comes next reads after it.
template <class T>
class Atomic {
 public:
  constexpr Atomic() = default;
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  void store(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
  T exchange(T value) { return __atomic_exchange_n(&value_, value, __ATOMIC_ACQ_REL); }

 private:
  T value_{};
};

}  // namespace opsmith
