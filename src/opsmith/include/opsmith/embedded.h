// Launches kernels that were compiled ahead and are embedded in this library, Triton's and CUDA's, through the driver.
//
// What a generated launcher needs is here; the launcher knows an operator's arguments, and a table its images. A build
// for AMD's GPUs defines OPSMITH_HIP: what differs between the two is in cuda_device.h and hip_device.h, under the same
// names.
#pragma once

#include <cstdint>
#include <cstring>

#include "arithmetic.h"
#include "error.h"
#include "view.h"
#ifdef OPSMITH_HIP
#include "hip_device.h"
#else
#include "cuda_device.h"
#endif

namespace opsmith {
namespace embedded {

// One compilation of a kernel, and how that has to be launched.
struct Image {
  int32_t arch;   // 90 for compute capability 9.0, 0x90a for gfx90a
  bool is_exact;  // whether it runs on that architecture alone
  bool is_ptx;
  int32_t threads;       // of a block; 0 where the launch says it
  int32_t shared_bytes;  // dynamic shared memory of a block; likewise
  int32_t scratch;       // how many pointers to scratch memory, all null, follow the arguments
  const char* name;
  const void* data;
};

// A kernel for each architecture of the build.
struct Kernel {
  const Image* images;
  int32_t count;
};

// The GPUs that a process may have; a higher number is refused.
constexpr int most_devices = 64;

// A kernel's function on each GPU, null until it is loaded there. In static memory, which begins as zeros.
struct Loaded {
  void* function[most_devices];
  const Image* image[most_devices];
};

// An integer of a call as the type that a kernel declares for it.
template <class To>
To fit(const char* op, const char* name, int64_t value,
       const char* advice = "int64_t, or as Index in a template over `class Index`") {
  const To to = static_cast<To>(value);
  if (static_cast<int64_t>(to) != value || (to < To{}) != (value < 0)) {
    fail(op, "(): ", name, " is ", value, ", which does not fit into the kernel's ", sizeof(To) == 4 ? "32" : "64",
         "-bit ", To(-1) < To{} ? "" : "unsigned ", "integer; declare it as ", advice);
  }
  return to;
}

namespace detail {

// Held while a kernel is loaded, which happens once for each kernel and GPU. It spins, because <mutex> takes as long to
// compile as the rest of a launcher.
class Lock {
 public:
  Lock() {
    while (__atomic_test_and_set(&flag(), __ATOMIC_ACQUIRE)) {
    }
  }
  Lock(const Lock&) = delete;
  ~Lock() { __atomic_clear(&flag(), __ATOMIC_RELEASE); }

 private:
  static bool& flag() {
    static bool taken = false;
    return taken;
  }
};

// The mode of cuda.h and of HIP's headers; loading is forbidden while a stream of this process is captured in another.
constexpr int relaxed_capture = 2;

class Relaxed {
 public:
  Relaxed(const Driver& driver) : driver_(driver) { driver_.capture_mode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  ~Relaxed() { driver_.capture_mode(&mode_); }

 private:
  const Driver& driver_;
  int mode_ = relaxed_capture;
};

// The modules of this library that are loaded: several kernels may be in one. Used under the lock.
class Modules {
 public:
  static Modules& get() {
    static Modules modules;
    return modules;
  }

  void* find(const void* data, int device) const {
    for (int index = 0; index < count_; ++index) {
      const Entry& entry = entries_[index];
      if (entry.data == data && entry.device == device) return entry.module;
    }
    return nullptr;
  }

  // One for which there is no room is loaded again by the next of its kernels, which does no harm.
  void add(const void* data, int device, void* module) {
    if (count_ < most) entries_[count_++] = {data, device, module};
  }

 private:
  struct Entry {
    const void* data;
    int device;
    void* module;
  };
  static constexpr int most = 256;

  int count_ = 0;
  Entry entries_[most];
};

// The number of the current GPU.
inline int current_device(const Driver& driver, const char* op, const void* data) {
  const int device = device_of(driver, op, data);
  if (device < 0 || device >= most_devices) fail(op, "(): GPU ", device, " is not one of the first ", most_devices);
  return device;
}

[[gnu::cold, gnu::noinline]] inline void load(const Driver& driver, const char* op, const Kernel& kernel, int device,
                                              Loaded& loaded) {
  const Lock lock;
  if (loaded.function[device] != nullptr) return;  // another thread was faster
  const Relaxed relaxed(driver);
  const Image* image = image_for(driver, op, kernel.images, kernel.count, device);
  const int64_t limit = shared_limit(driver, op, device);
  if (image->shared_bytes > limit) {
    fail(op, "(): the kernel ", image->name, " needs ", image->shared_bytes, " bytes of shared memory, and GPU ",
         device, " has ", limit, ". Make its blocks smaller, or give it less num_stages");
  }
  void *module = Modules::get().find(image->data, device), *function = nullptr;
  if (module == nullptr) {
    driver.check(driver.load(&module, image->data), op, "when a kernel was loaded");
    Modules::get().add(image->data, device, module);
  }
  driver.check(driver.function(&function, module, image->name), op, "when a kernel was looked up");
  allow_shared(driver, op, function, image->shared_bytes);
  loaded.image[device] = image;
  __atomic_store_n(&loaded.function[device], function, __ATOMIC_RELEASE);
}

// A kernel's function on a GPU.
inline void* function_of(const Driver& driver, const char* op, const Kernel& kernel, int device, Loaded& loaded) {
  void* function = __atomic_load_n(&loaded.function[device], __ATOMIC_ACQUIRE);
  if (function != nullptr) return function;
  load(driver, op, kernel, device, loaded);
  return loaded.function[device];
}

}  // namespace detail

// The arguments of a launch: each in 8 bytes, of which the kernel reads as many as it has declared.
template <int capacity>
class Arguments {
 public:
  template <class T>
  void add(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "an argument is a number or a pointer");
    std::memcpy(&slots_[count_], &value, sizeof(T));
    pointers_[count_] = &slots_[count_];
    ++count_;
  }

  // The pointers that the driver wants, with `scratch` null arguments behind the others.
  void** finish(int scratch) {
    while (scratch-- > 0 && count_ < capacity + most_scratch) add(static_cast<void*>(nullptr));
    return pointers_;
  }

 private:
  static constexpr int most_scratch = 4;

  int count_ = 0;
  uint64_t slots_[capacity + most_scratch] = {};
  void* pointers_[capacity + most_scratch];
};

// What a call's arguments are, as far as kernels are compiled specially for it.
class Facts {
 public:
  template <class T, int N>
  void tensor(const View<T, N>& view) {
    is_aligned_ = is_aligned_ && reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
    int64_t last = 0;
    for (int dim = 0; dim < N; ++dim) {
      if (view.size[dim] == 0) return;
      last += (view.size[dim] - 1) * (view.stride[dim] < 0 ? -view.stride[dim] : view.stride[dim]);
    }
    number(counts_bytes ? last * static_cast<int64_t>(sizeof(T)) : last);
  }
  // A number that must be a multiple of 16 for the fastest kernel.
  void inner(int64_t value) {
    is_multiple_ = is_multiple_ && value % 16 == 0;
    number(value);
  }
  // A number that only must fit.
  void number(int64_t value) { is_wide_ = is_wide_ || value > most_narrow || value < -most_narrow; }
  // The stride of a tensor's last dimension, of which there are `size`.
  void unit(int64_t size, int64_t stride) {
    is_unit_ = is_unit_ && (stride == 1 || size <= 1);
    number(stride);
  }

  // Whether numbers or offsets of the call need 64 bits.
  bool is_wide() const { return is_wide_; }

  // Which of the five specialisations (codegen/variants.py) may be used.
  int specialisation() const {
    const bool is_fast = is_aligned_ && is_unit_;
    if (is_wide_) return is_fast && is_multiple_ ? 3 : 4;
    return !is_fast ? 2 : is_multiple_ ? 0 : 1;
  }

 private:
  // Indices of a kernel's last block go beyond its tensors.
  static constexpr int64_t most_narrow = (int64_t{1} << 31) - (int64_t{1} << 20);

  bool is_wide_ = false, is_aligned_ = true, is_unit_ = true, is_multiple_ = true;
};

// For an argument with a value that no kernel is compiled for.
[[noreturn, gnu::cold]] inline int64_t refuse_choice(const char* op, const char* argument) {
  fail(op, "(): the value of ", argument, " is not one of those that the definition names");
}

// The number of blocks along each axis.
struct Grid {
  int64_t x = 1, y = 1, z = 1;

  bool is_empty() const { return x == 0 || y == 0 || z == 0; }

  // Refuses what no launch can have, with so many threads of a block along the first axis.
  void check(const char* op, int64_t threads) const {
    constexpr int64_t most_x = (int64_t{1} << 31) - 1, most = 65535;
    if (x < 0 || y < 0 || z < 0 || x > most_x || y > most || z > most) {
      fail(op, "(): the kernel's grid would be ", x, " x ", y, " x ", z, ", and ", platform, "'s is at most ", most_x,
           " x ", most, " x ", most);
    }
    if (x * threads > most_threads) {
      fail(op, "(): the kernel's grid would be ", x, " x ", y, " x ", z, " blocks of ", threads, " threads, and ",
           platform, "'s has at most ", most_threads, " threads along an axis");
    }
  }
};

// Launches a kernel on the current GPU, which brings the size of its blocks along. `data` is any tensor's address.
template <int capacity>
void launch(const char* op, const Kernel& kernel, Loaded& loaded, const Grid& grid, Arguments<capacity>& arguments,
            const void* data, void* stream) {
  const Driver& driver = Driver::get(op);
  const int device = detail::current_device(driver, op, data);
  void* function = detail::function_of(driver, op, kernel, device, loaded);
  const Image& image = *loaded.image[device];
  grid.check(op, image.threads);
  driver.check(
      driver.launch(function, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z), static_cast<unsigned>(image.threads), 1, 1,
                    static_cast<unsigned>(image.shared_bytes), stream, arguments.finish(image.scratch), nullptr),
      op, "when a kernel was launched");
}

}  // namespace embedded
}  // namespace opsmith
