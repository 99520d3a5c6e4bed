#include <opsmith/kernel.h>

using namespace opsmith;

namespace shop {

// Pool boxes from a pyramid.
template <class T, class I>
void pooled(ViewList<const T, 4> levels, View<const float, 2> boxes, View<const I, 1> batch, View<const T, 2> weight,
            int64_t pooled_h, double scale, const char* mode, List<int64_t> pads, Optional<double> limit,
            View<T, 4> out, View<int64_t, 1> argmax, Stream stream) {
  // pooled(Tensor[] levels, Tensor boxes, Tensor batch, Tensor? weight, SymInt pooled_h, float scale=0.5, *, str
  // mode="say \"so\"", int[] pads=[0, 1], float? limit=None) -> (Tensor, Tensor)
  fail("pooled is not written yet");
}

}  // namespace shop
