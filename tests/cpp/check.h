// What the C++ tests share: a check that counts failures, and the thread pool that a binding would bring.
#pragma once

#include <opsmith/kernel.h>

#include <cstdarg>
#include <cstdio>
#include <thread>
#include <vector>

inline int failures = 0;

// Reports a broken expectation, up to a number that still fits a screen.
__attribute__((format(printf, 2, 3))) inline void check(bool holds, const char* format, ...) {
  if (holds || ++failures > 20) return;
  std::printf("FAILED: ");
  std::va_list args;
  va_start(args, format);
  std::vprintf(format, args);
  va_end(args);
  std::printf("\n");
}

inline int report(const char* name) {
  std::printf("%s: %s (%d failures)\n", name, failures == 0 ? "passed" : "FAILED", failures);
  return failures == 0 ? 0 : 1;
}

// As PyTorch's pool does it: chunks of at least `grain`, one for each of three threads, the last one here.
inline void opsmith::detail::parallel_run(int64_t begin, int64_t end, int64_t grain,
                                          void (*fn)(int64_t, int64_t, void*), void* context) {
  const int64_t third = (end - begin + 2) / 3;
  const int64_t chunk = third > grain ? third : grain;
  std::vector<std::thread> threads;
  for (; begin + chunk < end; begin += chunk) threads.emplace_back(fn, begin, begin + chunk, context);
  fn(begin, end, context);
  for (std::thread& thread : threads) thread.join();
}
