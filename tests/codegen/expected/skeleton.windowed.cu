#include <opsmith/kernel.h>

using namespace opsmith;

namespace shop {

struct Window {
  int64_t size, step;
  double gain;
  bool is_causal;
  const char* name;
  Optional<int64_t> pad;
  Optional<double> limit;
};

struct Scale {
  double factor;
  bool double_;
};

// Cut a signal into windows.
template <class T>
void windowed(View<const T, 1> x, Window window, bool flip, Scale scale, View<T, 1> out, Stream stream) {
  // windowed(Tensor x, SymInt size, SymInt step, float gain, bool is_causal, str name, int? pad, float? limit, bool
  // flip, *, float factor=0.5, bool double=False) -> Tensor
  fail("windowed is not written yet");
}

}  // namespace shop
