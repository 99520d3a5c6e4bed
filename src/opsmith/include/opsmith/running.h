// Which operator a thread runs, so that a process that a signal ends there names it:
//
//   opsmith: SIGSEGV in the operator shop::kept; `opsmith check --sanitize address` can tell where
//
// The handlers are installed by opsmith's loader (runtime/crash_note.py), and only in the first library of a process;
// all libraries find the slot of a thread by one key of pthread's. It is not a thread_local: the first use of a
// library's thread_local in a thread allocates memory, which a handler must not, because malloc may be what failed.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "atomic.h"

namespace opsmith {
namespace binding {

constexpr int no_key = -1;
// pthread's key of the slots, for all libraries of the process; no_key where nothing would print them.
static Atomic<int> running_key{no_key};

// Where the name of the operator that a thread runs is kept. Volatile, because a handler reads it at any time.
using RunningSlot = const char* volatile;

// What a thread that runs operators has: its slot, and a stack for handlers, since an overflow leaves no room on its
// own. The kernel's frame alone takes 3 KiB with AVX-512 and 11 with AMX; Python's faulthandler runs on it, too.
struct NotedThread {
  RunningSlot slot;
  char stack[64 << 10];
};

inline RunningSlot* find_slot(int key) {
  return key == no_key ? nullptr : static_cast<RunningSlot*>(pthread_getspecific(static_cast<pthread_key_t>(key)));
}
[[gnu::cold, gnu::noinline]] inline RunningSlot* make_slot(int key) {
  auto* thread = static_cast<NotedThread*>(std::calloc(1, sizeof(NotedThread)));
  if (thread == nullptr) return nullptr;
  pthread_setspecific(static_cast<pthread_key_t>(key), thread);
  stack_t stack{};
  // A sanitizer, a virtual machine or faulthandler may have given the thread one.
  if (sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
    stack.ss_sp = thread->stack;
    stack.ss_size = sizeof(thread->stack);
    stack.ss_flags = 0;
    sigaltstack(&stack, nullptr);
  }
  return &thread->slot;
}
// Called as the thread ends.
[[gnu::cold]] inline void free_thread(void* slot) {
  auto* thread = static_cast<NotedThread*>(slot);
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) == 0 && stack.ss_sp == thread->stack) {
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
  }
  std::free(thread);
}

// The operator that this thread runs, or null.
inline const char* running_operator() {
  RunningSlot* slot = find_slot(running_key.load());
  return slot == nullptr ? nullptr : *slot;
}

// Has this thread run an operator for as long as the object lives. A kernel may call other operators.
class Running {
 public:
  explicit Running(const char* name) {
    const int key = running_key.load();
    if (key == no_key) return;
    slot_ = find_slot(key);
    if (slot_ == nullptr) slot_ = make_slot(key);
    if (slot_ == nullptr) return;
    outer_ = *slot_;
    *slot_ = name;
  }
  Running(const Running&) = delete;
  ~Running() {
    if (slot_ != nullptr) *slot_ = outer_;
  }

 private:
  RunningSlot* slot_ = nullptr;
  const char* outer_ = nullptr;
};

// A signal that a mistake in a kernel raises, and what was to happen before ours.
struct FatalSignal {
  int number;
  const char* name;
  struct sigaction previous;
};
static FatalSignal fatal_signals[] = {{SIGSEGV, "SIGSEGV", {}},
                                      {SIGBUS, "SIGBUS", {}},
                                      {SIGFPE, "SIGFPE", {}},
                                      {SIGILL, "SIGILL", {}},
                                      {SIGABRT, "SIGABRT", {}}};

// One note in the life of a process: a handler of someone else's may return, and then the fault happens again.
static Atomic<bool> is_noted;

[[gnu::cold]] inline void write_note(const char* signal_name, const char* operator_name) {
  const char* words[] = {"opsmith: ", signal_name, " in the operator ", operator_name,
                         "; `opsmith check --sanitize address` can tell where\n"};
  struct iovec parts[5];
  for (int index = 0; index < 5; ++index) {
    parts[index].iov_base = const_cast<char*>(words[index]);
    parts[index].iov_len = std::strlen(words[index]);
  }
  [[maybe_unused]] const ssize_t written = writev(2, parts, 5);
}

// Adds the note and does what would have happened without it: faulthandler's traceback, a data loader's message, the
// handler of a virtual machine that recovers from its own faults, or the end of the process. Async-signal-safe.
[[gnu::cold]] inline void on_fatal_signal(int number, siginfo_t* info, void* context) {
  const int error = errno;
  for (const FatalSignal& fatal : fatal_signals) {
    if (fatal.number != number) continue;
    const char* name = running_operator();
    if (name != nullptr && !is_noted.exchange(true)) write_note(fatal.name, name);
    const struct sigaction& previous = fatal.previous;
    if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
      sigaction(number, &previous, nullptr);
      // A fault happens again as soon as this returns, now without a handler; what was sent does not.
      if (info->si_code <= 0) raise(number);
    } else if ((previous.sa_flags & SA_SIGINFO) != 0) {
      previous.sa_sigaction(number, info, context);
    } else {
      previous.sa_handler(number);
    }
  }
  errno = error;
}

// Installs the handlers, and returns the key for the names of operators; no_key where there is none left.
[[gnu::cold]] inline int watch_signals() {
  pthread_key_t key;
  if (pthread_key_create(&key, free_thread) != 0) return no_key;
  struct sigaction action{};
  action.sa_sigaction = on_fatal_signal;
  // Not deferred: the handler that is called from ours may raise the signal again, as faulthandler's does, and that
  // must end the process there.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (FatalSignal& fatal : fatal_signals) {
    // In this order, so that a signal between the two finds what was there before.
    sigaction(fatal.number, nullptr, &fatal.previous);
    sigaction(fatal.number, &action, nullptr);
  }
  return static_cast<int>(key);
}

}  // namespace binding
}  // namespace opsmith

// Has the operators of this library put their names under a key; with no_key, makes one and installs the handlers.
// Returns the key, which the loader gives to the next library.
extern "C" [[gnu::visibility("default")]] int opsmith_name_crashes(int key) {
  using namespace opsmith::binding;
  if (key == no_key) key = watch_signals();
  running_key.store(key);
  return key;
}
