// The tools of a CPU kernel: parallel_for over PyTorch's threads, and with_best_isa for the loops inside it.
#pragma once

#include <cstdint>
#include <exception>

#include "atomic.h"

namespace opsmith {

namespace detail {

// Splits [begin, end) into chunks of at least `grain` and calls fn on each, on PyTorch's threads; returns when all have
// ended. The generated binding defines it. fn never throws.
void parallel_run(int64_t begin, int64_t end, int64_t grain, void (*fn)(int64_t, int64_t, void*), void* context);

}  // namespace detail

// Calls f(chunk_begin, chunk_end) for chunks that cover [begin, end), on several threads. At most `grain` indices are
// one chunk, done at once on the calling thread; choose it so that a chunk takes 10 us or more, what waking a thread
// costs. Write what does not depend on where the chunks end, and results are the same for any number of threads.
//
// When chunks throw, the first exception is thrown again here, on the calling thread, after all threads are done with
// f; chunks that had not begun by then are left out. What the others wrote stays written.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (begin >= end) return;
  if (end - begin <= grain) {
    f(begin, end);
    return;
  }
  struct Context {
    F& f;
    Atomic<bool> failed;
    std::exception_ptr error;
  };
  Context context{f, {}, nullptr};
  const auto run_chunk = [](int64_t chunk_begin, int64_t chunk_end, void* opaque) {
    Context& shared = *static_cast<Context*>(opaque);
    if (shared.failed.load()) return;
    try {
      shared.f(chunk_begin, chunk_end);
    } catch (...) {
      // Only one thread gets past the exchange, and the caller reads `error` after all threads have been joined.
      if (!shared.failed.exchange(true)) shared.error = std::current_exception();
    }
  };
  detail::parallel_run(begin, end, grain, run_chunk, &context);
  if (context.error) std::rethrow_exception(context.error);
}

// Which instruction sets with_best_isa compiles for besides the one the compiler was asked for. Only x86-64 has some
// that a program finds out about at run time, and there is nothing to find out with -march=native on AVX-512.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX512F__)
#define OPSMITH_CHOOSES_ISA 1
#else
#define OPSMITH_CHOOSES_ISA 0
#endif

#if OPSMITH_CHOOSES_ISA
namespace detail {

// `flatten` inlines f and all that it calls, and code that is inlined is compiled for the instruction set of the
// function it ends up in: so these are f's loops, vectorised for AVX2 and for AVX-512. The attribute target_clones
// would do for a single function, but clang refuses it on templates.
template <class F, class... Args>
__attribute__((target("avx2,fma"), flatten)) void run_avx2(const F& f, Args... args) {
  f(args...);
}
template <class F, class... Args>
__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"), flatten)) void run_avx512(const F& f,
                                                                                                Args... args) {
  f(args...);
}

// For processors from before 2013, or an emulator. `cold` asks for small code, not fast: a third vectorised loop would
// add a fifth to a kernel's compilation.
template <class F, class... Args>
__attribute__((cold, flatten)) void run_baseline(const F& f, Args... args) {
  f(args...);
}

// These read flags that the C++ runtime has filled in before: a few loads, nothing to cache.
inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace detail
#endif

// Calls f(args...), compiled for the best instruction set of this machine: f's body exists several times in the
// library, for AVX-512, AVX2 and any x86-64, and the one to run is chosen here, at run time. Meant for a hot loop, in
// the chunk of a parallel_for:
//
//     with_best_isa([](int64_t n, const float* __restrict__ x, float* __restrict__ y) {
//       for (int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i];
//     }, end - begin, x + begin, y + begin);
//
// What the loop works on is best passed as arguments: __restrict__ has a meaning for parameters only, not for what a
// lambda captures. All that f calls is compiled with it each time, so keep outside what is not hot. On other
// processors, and where the compiler was asked for AVX-512 to begin with, it is the same as f(args...). Results may
// differ in the last place from one instruction set to the next, because AVX2 and AVX-512 come with fused multiply-add.
template <class F, class... Args>
void with_best_isa(const F& f, Args... args) {
#if OPSMITH_CHOOSES_ISA
  if (detail::has_avx512()) return detail::run_avx512(f, args...);
  if (detail::has_avx2()) return detail::run_avx2(f, args...);
  detail::run_baseline(f, args...);
#else
  f(args...);
#endif
}

// The size of a vector register, as a type.
template <int bytes>
struct VectorBytes {};

// As with_best_isa, for a loop whose shape has to fit the vector registers, such as a tile of a matrix product: f's
// first argument is VectorBytes<64>, <32> or <16>, and f is compiled once for each.
template <class F, class... Args>
void with_vector_bytes(const F& f, Args... args) {
#if OPSMITH_CHOOSES_ISA
  if (detail::has_avx512()) return detail::run_avx512(f, VectorBytes<64>{}, args...);
  if (detail::has_avx2()) return detail::run_avx2(f, VectorBytes<32>{}, args...);
  detail::run_baseline(f, VectorBytes<16>{}, args...);
#elif defined(__AVX512F__)
  f(VectorBytes<64>{}, args...);
#else
  f(VectorBytes<16>{}, args...);
#endif
}

}  // namespace opsmith
