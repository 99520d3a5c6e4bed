// Operators registered by hand with torch's stable library: nothing checks their arguments, or what they return. One
// defect each where the file is compiled with -DPLANTED; NAMESPACE is where they are registered.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <stdexcept>
#include <vector>

using torch::stable::Tensor;

namespace {
#ifdef PLANTED
constexpr bool planted = true;
#else
constexpr bool planted = false;
#endif

void check(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

float* data(const Tensor& x) { return static_cast<float*>(x.data_ptr()); }

void check_vector(const Tensor& x, const char* what) {
  check(x.defined() && x.dim() == 1 && x.scalar_type() == torch::headeronly::ScalarType::Float && x.is_cpu(), what);
}

// x . y, for vectors of float32.
Tensor dot(const Tensor& x, const Tensor& y) {
  if (!planted) {
    check_vector(x, "dot: x should be a vector of float32 on the CPU");
    check_vector(y, "dot: y should be a vector of float32 on the CPU");
    check(x.size(0) == y.size(0), "dot: x and y should have one size");
  }
  Tensor out = torch::stable::new_empty(x, {1});
  float sum = 0;
  const int64_t count = x.size(0), step_x = x.stride(0), step_y = planted ? 1 : y.stride(0);
  const Tensor dense = planted ? torch::stable::contiguous(y) : y;
  for (int64_t n = 0; n < count; ++n) sum += data(x)[n * step_x] * data(dense)[n * step_y];
  data(out)[0] = sum;
  return out;
}

// x, or x where it is positive already.
Tensor alias(const Tensor& x) {
  check_vector(x, "alias: x should be a vector of float32 on the CPU");
  if (planted) return x;
  Tensor out = torch::stable::new_empty(x, {x.size(0)});
  for (int64_t n = 0; n < x.size(0); ++n) data(out)[n] = data(x)[n * x.stride(0)];
  return out;
}

// Twice x. The defect takes the storage's beginning for the tensor's.
Tensor offset(const Tensor& x) {
  check_vector(x, "offset: x should be a vector of float32 on the CPU");
  Tensor out = torch::stable::new_empty(x, {x.size(0)});
  int64_t begin = 0;
  aoti_torch_get_storage_offset(x.get(), &begin);
  const float* from = data(x) - (planted ? begin : 0);
  for (int64_t n = 0; n < x.size(0); ++n) data(out)[n] = from[n * x.stride(0)] * 2;
  return out;
}

// x copied; every call keeps its result for ever.
Tensor keep(const Tensor& x) {
  static std::vector<Tensor> kept;
  check_vector(x, "keep: x should be a vector of float32 on the CPU");
  // Not by clone, which would record a gradient of its own below the dispatcher's key for that.
  Tensor out = torch::stable::new_empty(x, {x.size(0)});
  for (int64_t n = 0; n < x.size(0); ++n) data(out)[n] = data(x)[n * x.stride(0)];
  if (planted) kept.push_back(torch::stable::new_empty(x, {4096}));
  return out;
}
}  // namespace

STABLE_TORCH_LIBRARY(NAMESPACE, m) {
  m.def("dot(Tensor x, Tensor y) -> Tensor");
  m.def("alias(Tensor x) -> Tensor");
  m.def("offset(Tensor x) -> Tensor");
  m.def("keep(Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(NAMESPACE, CPU, m) {
  m.impl("dot", TORCH_BOX(&dot));
  m.impl("alias", TORCH_BOX(&alias));
  m.impl("offset", TORCH_BOX(&offset));
  m.impl("keep", TORCH_BOX(&keep));
}
