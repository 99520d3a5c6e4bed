// Memory that the host side of a GPU kernel borrows from PyTorch for one call.
#pragma once

#include <cstdint>

namespace opsmith {

namespace detail {

// Allocates on the current GPU, and frees what was allocated; the generated binding defines both. A loan stands for the
// memory, and its address comes apart from it.
void* borrow(int64_t bytes, void** address);
void give_back(void* loan);

}  // namespace detail

// Room for `count` elements, uninitialised and aligned to 16 bytes or more.
//
// The memory is of PyTorch's caching allocator: asking for it waits for nothing, its statistics count it, and a CUDA
// graph keeps it. It may be given back as soon as the kernels that use it are launched: whoever gets it next is behind
// them in the stream.
template <class T>
class Workspace {
 public:
  explicit Workspace(int64_t count) {
    void* address = nullptr;
    loan_ = detail::borrow(count * static_cast<int64_t>(sizeof(T)), &address);
    data = static_cast<T*>(address);
  }
  Workspace(const Workspace&) = delete;
  ~Workspace() { detail::give_back(loan_); }

  T* data;

 private:
  void* loan_;
};

}  // namespace opsmith
