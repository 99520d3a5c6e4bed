// What calls take where C++ makes them: the part of a call's time that is not Python's, for `opsmith profile` alone.
#pragma once

#include <c10/util/ApproximateClock.h>

#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "entry.h"

namespace opsmith::bridge {
namespace {

using Ticks = c10::approx_time_t;

// Ticks that went by on average between two readings of the counter which follow each other.
double ticks_of_reading() {
  constexpr int count = 1000;
  const Ticks begin = c10::getApproximateTime();
  Ticks last = begin;
  for (int index = 0; index < count; ++index) last = c10::getApproximateTime();
  return static_cast<double>(last - begin) / count;
}

struct Taken {
  Ticks call = 0;
  Ticks free = 0;
};

// Makes calls whose arguments lie on stacks already, round and round, and drops what they return.
Taken run_calls(const Entry& entry, const std::vector<Stack>& arguments, int64_t repeats) {
  Taken taken;
  for (int64_t index = 0; index < repeats; ++index) {
    Stack stack = arguments[static_cast<size_t>(index) % arguments.size()];
    const Ticks begin = c10::getApproximateTime();
    entry.dispatch(stack);
    const Ticks called = c10::getApproximateTime();
    stack.clear();
    taken.free += c10::getApproximateTime() - called;
    taken.call += called - begin;
  }
  return taken;
}

}  // namespace

// Makes `repeats` calls through the dispatcher, going round through `calls`, a list of pairs of positional and keyword
// arguments. Returns the seconds of one call, and those of freeing what it returned.
Object time_calls(PyObject* entry_capsule, PyObject* calls, int64_t repeats) {
  const auto* entry = static_cast<const Entry*>(PyCapsule_GetPointer(entry_capsule, kCapsule));
  if (entry == nullptr) throw ErrorIsSet();
  std::vector<Stack> arguments;
  for_each_item(calls, [&](const Object& call) {
    Stack stack;
    if (!entry->parse(item_of(call, 0).get(), item_of(call, 1).get(), stack)) {
      throw std::invalid_argument("a call to be timed has arguments that are not plain tensors and numbers");
    }
    arguments.push_back(std::move(stack));
  });
  if (arguments.empty() || repeats < 1) throw std::invalid_argument("there is no call to be timed");
  Taken taken;
  double seconds_of_tick = 0;
  {
    const WithoutGil without_gil;
    const auto started = std::chrono::steady_clock::now();
    const Ticks begin = c10::getApproximateTime();
    taken = run_calls(*entry, arguments, repeats);
    const auto ticks = static_cast<double>(c10::getApproximateTime() - begin);
    seconds_of_tick = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() / ticks;
  }
  const double reading = ticks_of_reading();
  const auto seconds_of = [&](Ticks total) {
    return (static_cast<double>(total) / static_cast<double>(repeats) - reading) * seconds_of_tick;
  };
  return Object::take(Py_BuildValue("(dd)", seconds_of(taken.call), seconds_of(taken.free)));
}

}  // namespace opsmith::bridge
