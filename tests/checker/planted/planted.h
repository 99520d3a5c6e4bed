// Whether a kernel has its defect in this build: every operator is compiled twice, and the two differ in this alone.
#pragma once

#include <opsmith/kernel.h>

#ifdef PLANTED
inline constexpr bool planted = true;
#else
inline constexpr bool planted = false;
#endif
