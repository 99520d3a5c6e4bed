// The pointwise part of an LLTM step on the CPU: the kernels lltm_gates and lltm_gates_backward.
#include "pointwise_cpu.h"
