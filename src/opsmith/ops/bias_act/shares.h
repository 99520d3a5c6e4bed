// How many blocks share the work of bias_act's kernels.
#pragma once

#include <opsmith/reduce.h>

namespace {

using namespace opsmith;

constexpr int threads = GridSum::threads;
// Blocks enough for some rounds on any GPU; where there are more elements, each thread takes more of them, up to a
// limit that keeps the rounds even and a float's sum short.
constexpr int64_t blocks_wanted = 4096;
constexpr int64_t most_vectors = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace
