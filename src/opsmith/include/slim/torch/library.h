// torch/types.h includes torch/library.h; only sources that register operators need it.

#pragma once

#ifdef OPSMITH_SLIM_LIBRARY
#include_next <torch/library.h>
#endif
