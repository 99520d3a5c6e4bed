// Whether a kernel has its defect in this build: every operator is compiled twice, and the two differ in this alone.
#pragma once

#include <opsmith/kernel.h>

#ifdef PLANTED
inline constexpr bool planted = true;
#define KEPT static  // what a kernel with a defect keeps between its calls, and the sound one has for each call
#else
inline constexpr bool planted = false;
#define KEPT
#endif
