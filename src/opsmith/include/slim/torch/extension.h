// Stands before torch's header of this name where a source needs no more than this (opsmith.build.fast.slim). Where
// that turns out wrong, the source is compiled with torch's own.

#pragma once

#include <opsmith/slim.h>

#ifdef OPSMITH_SLIM_AUTOGRAD
#include <torch/autograd.h>
#endif
#ifdef OPSMITH_SLIM_UTILS
#include <torch/utils.h>
#endif
