// The loops over a dense row that steps 3 to 5 share. The compiler makes vector instructions of them.
#pragma once

#include <opsmith/kernel.h>
#include <opsmith/math.h>

#include <cmath>

namespace {

using namespace opsmith;

// A sum, or a maximum, is a chain in which each step waits for the one before. This many side by side fill the vector
// registers, and their number, not the machine's, decides in which order the terms of a sum are added.
constexpr int64_t lanes = 32;

// line = scale * scores + bias; returns the largest.
template <class C>
C fill_logits(int64_t n, const C* scores, const C* bias, C scale, C* line) {
  C largest = -INFINITY;
  with_best_isa(
      [](int64_t n, const C* __restrict__ scores, const C* __restrict__ bias, C scale, C* __restrict__ line,
         C* __restrict__ largest) {
        C lane[lanes];
        for (int64_t j = 0; j < lanes; ++j) lane[j] = -INFINITY;
        const int64_t whole = n / lanes * lanes;
        for (int64_t i = 0; i < whole; i += lanes) {
          for (int64_t j = 0; j < lanes; ++j) {
            line[i + j] = scale * scores[i + j] + bias[i + j];
            lane[j] = line[i + j] > lane[j] ? line[i + j] : lane[j];
          }
        }
        for (int64_t i = whole; i < n; ++i) {
          line[i] = scale * scores[i] + bias[i];
          lane[i - whole] = line[i] > lane[i - whole] ? line[i] : lane[i - whole];
        }
        for (int64_t j = 0; j < lanes; ++j) *largest = lane[j] > *largest ? lane[j] : *largest;
      },
      n, scores, bias, scale, line, &largest);
  return largest;
}

// line = exp(line - largest); returns the sum.
template <class C>
C exponentiate(int64_t n, C largest, C* line) {
  C sum = 0;
  with_best_isa(
      [](int64_t n, C largest, C* __restrict__ line, C* __restrict__ sum) {
        C lane[lanes] = {};
        const int64_t whole = n / lanes * lanes;
        for (int64_t i = 0; i < whole; i += lanes) {
          for (int64_t j = 0; j < lanes; ++j) {
            line[i + j] = math::exp(line[i + j] - largest);
            lane[j] += line[i + j];
          }
        }
        for (int64_t i = whole; i < n; ++i) {
          line[i] = math::exp(line[i] - largest);
          lane[i - whole] += line[i];
        }
        for (int64_t j = 0; j < lanes; ++j) *sum += lane[j];
      },
      n, largest, line, &sum);
  return sum;
}

template <class C>
void multiply(int64_t n, C factor, const C* from, C* to) {
  with_best_isa(
      [](int64_t n, C factor, const C* __restrict__ from, C* __restrict__ to) {
        for (int64_t i = 0; i < n; ++i) to[i] = from[i] * factor;
      },
      n, factor, from, to);
}

}  // namespace
