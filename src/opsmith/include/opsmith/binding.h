// What a generated binding includes. A binding is generated for each operator; whatever does not depend on the
// definition is in these headers, once:
//
//   shims.h    the functions of torch's C ABI that a binding calls; no other header of torch is needed
//   torch_error.h  torch's own words for what they could not do
//   held.h     the tensors of a call, and who frees them
//   arguments.h  its lists, strings and numbers, likewise
//   sizes.h    sizes and strides: put together, computed, compared
//   checks.h   the words of refusals
//   layout.h   the allocation of outputs, and the views of tensors in whatever layout
//   running.h  which operator a thread runs, for the note of a process that dies in it
//   binding.h  registration; device, stream and threads of a call
//
// A binding with native kernels, which work on torch's stable C++ tensors, includes native_binding.h instead.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>

#include "arguments.h"
#include "checks.h"
#include "cpu.h"
#include "held.h"
#include "layout.h"
#include "running.h"
#include "shims.h"
#include "sizes.h"
#include "stream.h"
#include "workspace.h"

namespace opsmith {

// The only definitions of what kernels are offered by headers that know no torch.
namespace detail {

// The function behind parallel_for: PyTorch's own threads, which run the caller's operator.
void parallel_run(int64_t begin, int64_t end, int64_t grain, void (*fn)(int64_t, int64_t, void*), void* context) {
  struct Work {
    void (*fn)(int64_t, int64_t, void*);
    void* context;
    const char* name;
  };
  Work work{fn, context, binding::running_operator()};
  const auto run = [](int64_t chunk_begin, int64_t chunk_end, void* opaque) {
    const Work& shared = *static_cast<const Work*>(opaque);
    const binding::Running running(shared.name);
    shared.fn(chunk_begin, chunk_end, shared.context);
  };
  if (torch_parallel_for(begin, end, grain, run, &work) != 0) binding::give_up("PyTorch's threads failed");
}

// Those behind Workspace: tensors of bytes, on the GPU that Launch made current.
void* borrow(int64_t bytes, void** address) {
  int32_t device = -1;
  AtenTensorHandle tensor = nullptr;
  const int64_t stride = 1;
  if (aoti_torch_get_current_device_index(&device) != 0 ||
      aoti_torch_empty_strided(1, &bytes, &stride, binding::dtypes::uint8, aoti_torch_device_type_cuda(), device,
                               &tensor) != 0) {
    torch_failed("a workspace cannot be allocated");
  }
  if (torch_get_mutable_data_ptr(tensor, address) != 0) {
    aoti_torch_delete_tensor_object(tensor);
    torch_failed("a workspace has no data");
  }
  return tensor;
}
void give_back(void* loan) { aoti_torch_delete_tensor_object(static_cast<AtenTensorHandle>(loan)); }

}  // namespace detail

namespace binding {

enum class Device { cpu, cuda };

// The device of a call's tensors, made current for the length of the call, and its stream.
template <Device device>
struct Launch;

template <>
struct Launch<Device::cpu> {
  explicit Launch(const DeviceId&) {}
};

template <>
struct Launch<Device::cuda> {
  explicit Launch(const DeviceId& device) : stream(current_stream(device.index)) {
    int32_t current = -1;
    // Most calls are for the device that is current anyway, and a guard is an allocation.
    const bool known = aoti_torch_get_current_device_index(&current) == 0;
    if ((!known || current != device.index) && aoti_torch_create_device_guard(device.index, &guard_) != 0) {
      torch_failed("GPU ", device.index, " cannot be made current");
    }
  }
  Launch(const Launch&) = delete;
  ~Launch() {
    if (guard_ != nullptr) aoti_torch_delete_device_guard(guard_);
  }

  void* stream;

 private:
  DeviceGuardHandle guard_ = nullptr;
};

// What the dispatcher calls: the stack has the arguments, and takes the results from its beginning.
using Boxed = void (*)(StableIValue* stack, uint64_t arguments, uint64_t results);

// Operators of a namespace, or kernels for one dispatch key, which are there as long as this library is loaded.
class Library {
 public:
  Library(const char* name, const char* file, uint32_t line) {
    check(aoti_torch_library_init_fragment(name, file, line, &library_), name);
  }
  Library(const char* name, const char* key, const char* file, uint32_t line) {
    check(aoti_torch_library_init_impl(name, key, file, line, &library_), name);
  }
  Library(const Library&) = delete;
  ~Library() { aoti_torch_delete_library_object(library_); }

  Library& def(const char* schema) {
    check(aoti_torch_library_def(library_, schema), schema);
    return *this;
  }
  Library& impl(const char* name, Boxed kernel) {
    // 2.10.0, as torch writes versions: the form in which it hands over arguments, whatever its own version.
    constexpr uint64_t form = (uint64_t{2} << 56) | (uint64_t{10} << 48);
    check(torch_library_impl(library_, name, kernel, form), name);
    return *this;
  }

 private:
  static void check(AOTITorchError error, const char* what) {
    if (error != 0) torch_failed("PyTorch does not take ", what);
  }

  TorchLibraryHandle library_ = nullptr;
};

// Why the operators of this library could not be registered; empty if they are.
char load_error[1024] = "";

// Registers a library's operators when it is loaded. An exception that left a static initialiser would end the process,
// so it is kept for opsmith's loader (runtime/load.py), which raises it.
template <class Registration>
class Registered {
 public:
  Registered() noexcept {
    try {
      registration_ = new Registration;
    } catch (const std::exception& error) {
      std::snprintf(load_error, sizeof load_error, "%s", error.what());
    }
  }
  Registered(const Registered&) = delete;
  ~Registered() { delete registration_; }

 private:
  const Registration* registration_ = nullptr;
};

}  // namespace binding
}  // namespace opsmith

extern "C" [[gnu::visibility("default")]] const char* opsmith_load_error() { return opsmith::binding::load_error; }
