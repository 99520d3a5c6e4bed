// The functions of torch's C ABI that a generated binding calls, declared here once more.
//
// They are those of torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h that torch 2.10 has, and
// PyTorch promises to keep them as they are. Declaring them takes 0.01 s of a binding's compilation, including the two
// headers 0.3 s, and a binary without them depends on no version of torch. tests/codegen/test_headers.py holds
// every declaration to torch's own.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
using AOTITorchError = int32_t;  // 0 is success; torch_error.h has the message of a failure

// An argument or result on its way through the dispatcher. An int, float or bool is there itself; a tensor, list or
// string as an owning handle; and an optional as a pointer from `new` to one of these, or as null.
using StableIValue = uint64_t;

struct StableListOpaque;
using StableListHandle = StableListOpaque*;
struct StringOpaque;
using StringHandle = StringOpaque*;
class TorchLibraryOpaque;
using TorchLibraryHandle = TorchLibraryOpaque*;
struct DeviceGuardOpaque;
using DeviceGuardHandle = DeviceGuardOpaque*;

// Numbers that stand for devices and element types.
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_dtype_float16();
int32_t aoti_torch_dtype_bfloat16();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_float64();
int32_t aoti_torch_dtype_uint8();
int32_t aoti_torch_dtype_int8();
int32_t aoti_torch_dtype_int16();
int32_t aoti_torch_dtype_int32();
int32_t aoti_torch_dtype_int64();
int32_t aoti_torch_dtype_bool();

// Tensors. Sizes, strides and data are borrowed.
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle tensor, AtenTensorHandle* result);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* result);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** result);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** result);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* result);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* result);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle tensor, int32_t* result);
AOTITorchError torch_get_const_data_ptr(AtenTensorHandle tensor, const void** result);
AOTITorchError torch_get_mutable_data_ptr(AtenTensorHandle tensor, void** result);
AOTITorchError aoti_torch_empty_strided(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device_type, int32_t device_index, AtenTensorHandle* result);
AOTITorchError aoti_torch_copy_(AtenTensorHandle to, AtenTensorHandle from, int32_t non_blocking);

// Lists and strings. Deleting a list leaves what it holds.
AOTITorchError torch_list_size(StableListHandle list, size_t* result);
AOTITorchError torch_list_get_item(StableListHandle list, size_t index, StableIValue* result);
AOTITorchError torch_delete_list(StableListHandle list);
AOTITorchError torch_string_length(StringHandle string, size_t* result);
AOTITorchError torch_string_c_str(StringHandle string, const char** result);
AOTITorchError torch_delete_string(StringHandle string);

// Devices and threads.
AOTITorchError aoti_torch_get_current_device_index(int32_t* result);
AOTITorchError aoti_torch_create_device_guard(int32_t device_index, DeviceGuardHandle* result);
AOTITorchError aoti_torch_delete_device_guard(DeviceGuardHandle guard);
AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t grain, void (*fn)(int64_t, int64_t, void*),
                                  void* context);

// Operators and their kernels.
AOTITorchError aoti_torch_library_init_fragment(const char* name, const char* file, uint32_t line,
                                                TorchLibraryHandle* result);
AOTITorchError aoti_torch_library_init_impl(const char* name, const char* key, const char* file, uint32_t line,
                                            TorchLibraryHandle* result);
AOTITorchError aoti_torch_library_def(TorchLibraryHandle library, const char* schema);
AOTITorchError torch_library_impl(TorchLibraryHandle library, const char* name,
                                  void (*kernel)(StableIValue*, uint64_t, uint64_t), uint64_t built_for);
AOTITorchError aoti_torch_delete_library_object(TorchLibraryHandle library);

}  // extern "C"
