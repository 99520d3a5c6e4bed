#include "triple.h"

#if OPSMITH_TEST_FLAG != 1
#error "the kernel's flags are missing"
#endif

void triple_in_place(double* data, long count) {
  for (long i = 0; i < count; ++i) data[i] *= 3;
}
