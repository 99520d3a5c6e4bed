// Lets a library give back what it registered with PyTorch, while its code stays in the process.
//
// PyTorch holds a TORCH_LIBRARY block in a static object whose destructor takes the registrations back, at the end of
// the process. The linker sends every registration of a destructor here (--wrap=__cxa_atexit), so that those alone can
// run sooner, and no destructor ever runs twice. Everything else of the library lives on: autograd nodes and modules
// that an earlier version made keep their code and their statics.

#include <cstdlib>

extern "C" {

int __real___cxa_atexit(void (*destroy)(void*), void* object, void* library);

// The destructors of PyTorch's two kinds of static objects, where this library has them.
void _ZN5torch6detail16TorchLibraryInitD1Ev(void*) __attribute__((weak, visibility("hidden")));
void _ZN5torch6stable6detail22StableTorchLibraryInitD1Ev(void*) __attribute__((weak, visibility("hidden")));
}

namespace {

struct Entry {
  void (*destroy)(void*);
  void* object;
  Entry* next;
};

Entry* entries = nullptr;  // the newest first, which is the order of destruction

void run(void* pointer) {
  auto* entry = static_cast<Entry*>(pointer);
  if (auto* destroy = __atomic_exchange_n(&entry->destroy, nullptr, __ATOMIC_ACQ_REL)) {
    destroy(entry->object);
  }
}

bool is_registration(void (*destroy)(void*)) {
  return destroy != nullptr && (destroy == _ZN5torch6detail16TorchLibraryInitD1Ev ||
                                destroy == _ZN5torch6stable6detail22StableTorchLibraryInitD1Ev);
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) int __wrap___cxa_atexit(void (*destroy)(void*), void* object,
                                                                         void* library) {
  auto* entry = static_cast<Entry*>(std::malloc(sizeof(Entry)));
  if (entry == nullptr) {
    return -1;
  }
  entry->destroy = destroy;
  entry->object = object;
  entry->next = __atomic_load_n(&entries, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&entries, &entry->next, entry, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
  return __real___cxa_atexit(run, entry, library);
}

// Takes all registrations of this library back and returns how many blocks there were.
extern "C" __attribute__((visibility("default"))) int opsmith_release() {
  int count = 0;
  for (auto* entry = __atomic_load_n(&entries, __ATOMIC_ACQUIRE); entry != nullptr; entry = entry->next) {
    if (is_registration(entry->destroy)) {
      run(entry);
      ++count;
    }
  }
  return count;
}
