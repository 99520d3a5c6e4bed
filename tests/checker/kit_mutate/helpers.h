// What the kernels beside share.
#pragma once

namespace {

template <class T>
bool is_positive(T number) {
  return number > T(0);
}

// NaN stays NaN.
template <class C>
C positive(C number) {
  return number <= C(0) ? C(0) : number;
}

}  // namespace
