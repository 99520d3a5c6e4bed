// Where a call's time goes inside a generated binding: clocks between its parts, for `opsmith profile` alone.
//
// A library that people use has none of this. A binding that is generated to be timed makes a `Marks` first of all and
// says after each part that it is done; the time of a reading itself is taken along as a part of its own, `reading`.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <chrono>
#endif

namespace opsmith {
namespace binding {

// The processor's counter where it has one that programs may read: a third of what the system's clock takes.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// The parts of a binding in the order in which they come; opsmith/profiler/timed.py reads them by this order.
enum class Part { reading, arguments, outputs, copies, kernel, results };

// What all calls took since this was last set to zero; one caller at a time.
struct Totals {
  uint64_t calls;
  uint64_t ticks[6];
};

namespace {
Totals totals;
}

// Made before everything else in a call, and so destroyed last: what frees the arguments is in `results`.
class Marks {
 public:
  Marks() : last_(ticks()) { done(Part::reading); }
  Marks(const Marks&) = delete;
  ~Marks() {
    done(Part::results);
    ++totals.calls;
  }

  void done(Part part) {
    const uint64_t now = ticks();
    totals.ticks[static_cast<int>(part)] += now - last_;
    last_ = now;
  }

 private:
  uint64_t last_;
};

}  // namespace binding
}  // namespace opsmith

extern "C" {
// Functions, so that each library answers for itself whichever else is loaded.
__attribute__((visibility("default"))) opsmith::binding::Totals* opsmith_timed_totals() {
  return &opsmith::binding::totals;
}
__attribute__((visibility("default"))) uint64_t opsmith_timed_ticks() { return opsmith::binding::ticks(); }
}
