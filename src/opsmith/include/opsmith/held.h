// The tensors that a generated binding holds while it serves a call, as torch's C ABI hands them over.
//
// The dispatcher gives away what it passes, so each of these frees what it was made from, also where the call ends in
// an exception. A binding therefore makes all of them first, which cannot fail, and only then reads them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "error.h"
#include "shims.h"
#include "torch_error.h"

namespace opsmith {
namespace binding {

// What cannot go on for a reason that no argument has. One function for all, as each use of fail() is another.
[[gnu::cold, gnu::noinline, noreturn]] inline void give_up(const char* why) { fail(why); }

// torch's numbers for element types and for the CPU, asked for once.
namespace dtypes {
static const int32_t float16 = aoti_torch_dtype_float16();
static const int32_t bfloat16 = aoti_torch_dtype_bfloat16();
static const int32_t float32 = aoti_torch_dtype_float32();
static const int32_t float64 = aoti_torch_dtype_float64();
static const int32_t uint8 = aoti_torch_dtype_uint8();
static const int32_t int8 = aoti_torch_dtype_int8();
static const int32_t int16 = aoti_torch_dtype_int16();
static const int32_t int32 = aoti_torch_dtype_int32();
static const int32_t int64 = aoti_torch_dtype_int64();
static const int32_t bool_ = aoti_torch_dtype_bool();
}  // namespace dtypes
static const int32_t cpu_type = aoti_torch_device_type_cpu();

// A device as PyTorch numbers it: the kind, and which one of it.
struct DeviceId {
  int32_t type;
  int32_t index;

  bool is_cpu() const { return type == cpu_type; }
  // There is one CPU: PyTorch gives its tensors the index -1, and 0 to those that were asked for on "cpu:0".
  bool operator!=(const DeviceId& other) const { return type != other.type || (!is_cpu() && index != other.index); }
};

// A tensor, and what is asked of it more than once. Without a handle it is an optional tensor that was not given.
class Held {
 public:
  Held() = default;
  explicit Held(AtenTensorHandle handle) noexcept : handle_(handle) {}
  // A tensor that was just made, so that nothing need be read.
  Held(AtenTensorHandle handle, int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
       const DeviceId& device)
      : rank(rank), sizes(sizes), strides(strides), dtype(dtype), device(device), handle_(handle) {}
  Held(const Held&) = delete;
  ~Held() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
    if (original_ != nullptr) aoti_torch_delete_tensor_object(original_);
  }

  void take(AtenTensorHandle handle) noexcept { handle_ = handle; }

  void read() {
    if (handle_ == nullptr) return;
    int64_t *sizes_found, *strides_found;
    device.index = -1;
    if (aoti_torch_get_dim(handle_, &rank) != 0 || aoti_torch_get_sizes(handle_, &sizes_found) != 0 ||
        aoti_torch_get_strides(handle_, &strides_found) != 0 || aoti_torch_get_dtype(handle_, &dtype) != 0 ||
        aoti_torch_get_device_type(handle_, &device.type) != 0 ||
        (!device.is_cpu() && aoti_torch_get_device_index(handle_, &device.index) != 0)) {
      torch_failed("a tensor cannot be read");
    }
    sizes = sizes_found;
    strides = strides_found;
  }

  explicit operator bool() const { return handle_ != nullptr; }
  AtenTensorHandle get() const { return handle_; }
  StableIValue release() {
    const auto value = reinterpret_cast<StableIValue>(handle_);
    handle_ = nullptr;
    return value;
  }

  // The size of an axis, which may count from the end.
  int64_t size(int64_t axis) const { return sizes[axis < 0 ? axis + rank : axis]; }

  bool is_empty() const {
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (sizes[dim] == 0) return true;
    }
    return false;
  }

  // As PyTorch has it: the stride of a dimension of size 1 does not matter, and an empty tensor is contiguous.
  bool is_contiguous() const {
    int64_t next = 1;
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      if (sizes[dim] == 1) continue;
      if (strides[dim] != next) return is_empty();
      next *= sizes[dim];
    }
    return true;
  }

  // The address of the first element, which a kernel writes to where T is not const.
  template <class T>
  T* data() const {
    void* address = nullptr;
    AOTITorchError error;
    if constexpr (std::is_const_v<T>) {
      error = torch_get_const_data_ptr(handle_, const_cast<const void**>(&address));
    } else {
      error = torch_get_mutable_data_ptr(handle_, &address);
    }
    if (error != 0) torch_failed("a tensor has no data");
    return static_cast<T*>(address);
  }

  // Replaces the tensor by a contiguous copy, where it is not contiguous itself.
  void make_contiguous();
  // Replaces the tensor by a copy of these strides.
  void replace(const int64_t* by_strides);
  // Gives the argument that was copied what the kernel wrote to the copy.
  void copy_back();

  int64_t rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int32_t dtype = -1;
  DeviceId device{-1, -1};

 private:
  AtenTensorHandle handle_ = nullptr;
  AtenTensorHandle original_ = nullptr;  // the argument, where `handle_` is a copy of it
};

}  // namespace binding
}  // namespace opsmith
