#include <opsmith/native.h>

using namespace opsmith;

// Which boxes are kept.
std::tuple<Tensor, Tensor> kept(const Tensor& boxes, const Tensor& scores) {
  // kept(Tensor boxes, Tensor scores) -> (Tensor, Tensor)
  fail("kept is not written yet");
}
