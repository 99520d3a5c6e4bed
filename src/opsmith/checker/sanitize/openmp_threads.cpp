// Tells ThreadSanitizer that an OpenMP region begins after what was before it and ends before what is behind it.
//
// libgomp is not compiled for the sanitizer, which therefore sees no order between a thread's work and what came before
// or comes after, and takes all of it for races. This library is loaded first and stands in for the functions that
// compilers call; each does what libgomp's does, with the order told.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

namespace {

using Body = void (*)(void*);

int remember_openmp(dl_phdr_info* info, size_t, void* found) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* name = slash == nullptr ? info->dlpi_name : slash + 1;
  for (const char* known : {"libgomp", "libiomp", "libomp"}) {
    if (std::strncmp(name, known, std::strlen(known)) == 0) {
      *static_cast<const char**>(found) = info->dlpi_name;
      return 1;
    }
  }
  return 0;
}

// The function itself. RTLD_NEXT would not find it: Python loads libraries for themselves alone.
template <class F>
F find(const char* name) {
  const char* library = nullptr;
  dl_iterate_phdr(remember_openmp, &library);
  void* handle = library == nullptr ? nullptr : dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* found = handle == nullptr ? nullptr : dlsym(handle, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no OpenMP library in this process has %s\n", name);
    std::abort();
  }
  return reinterpret_cast<F>(found);
}

struct Region {
  Body body;
  void* data;
  char begin;
  char end;
};

void run_region(void* opaque) {
  auto* region = static_cast<Region*>(opaque);
  __tsan_acquire(&region->begin);
  region->body(region->data);
  __tsan_release(&region->end);
}

template <class F, class... More>
void in_region(F real, Body body, void* data, More... more) {
  Region region{body, data, 0, 0};
  __tsan_release(&region.begin);
  real(run_region, &region, more...);
  __tsan_acquire(&region.end);
}

template <class F>
void wait_for_all(F real) {
  static char order;
  __tsan_release(&order);
  real();
  __tsan_acquire(&order);
}

char locked;

}  // namespace

extern "C" {

void GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags) {
  static const auto real = find<void (*)(Body, void*, unsigned, unsigned)>("GOMP_parallel");
  in_region(real, body, data, threads, flags);
}

#define OPSMITH_LOOP(name)                                                                                          \
  void name(Body body, void* data, unsigned threads, long begin, long end, long step, long chunk, unsigned flags) { \
    static const auto real = find<void (*)(Body, void*, unsigned, long, long, long, long, unsigned)>(#name);        \
    in_region(real, body, data, threads, begin, end, step, chunk, flags);                                           \
  }
OPSMITH_LOOP(GOMP_parallel_loop_static)
OPSMITH_LOOP(GOMP_parallel_loop_dynamic)
OPSMITH_LOOP(GOMP_parallel_loop_guided)
OPSMITH_LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
OPSMITH_LOOP(GOMP_parallel_loop_nonmonotonic_guided)

void GOMP_barrier() {
  static const auto real = find<void (*)()>("GOMP_barrier");
  wait_for_all(real);
}

void GOMP_critical_start() {
  static const auto real = find<void (*)()>("GOMP_critical_start");
  real();
  __tsan_acquire(&locked);
}

void GOMP_critical_end() {
  static const auto real = find<void (*)()>("GOMP_critical_end");
  __tsan_release(&locked);
  real();
}

void GOMP_atomic_start() {
  static const auto real = find<void (*)()>("GOMP_atomic_start");
  real();
  __tsan_acquire(&locked);
}

void GOMP_atomic_end() {
  static const auto real = find<void (*)()>("GOMP_atomic_end");
  __tsan_release(&locked);
  real();
}
}
