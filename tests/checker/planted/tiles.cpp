// Kernels with tiles, widths of their own and long rows; each defect, behind `if (planted)`, shows at some sizes alone.
#include <algorithm>
#include <cmath>

#include "planted.h"

using namespace opsmith;

namespace {
constexpr int64_t tile = 256;
}

// Tiles in both dimensions ------------------------------------------------------------------------------------------

template <class T>
void tiled(View<const T, 2> x, View<T, 2> y) {
  for (int64_t top = 0; top < x.size[0]; top += tile) {
    for (int64_t left = 0; left < x.size[1]; left += tile) {
      const int64_t rows = std::min(tile, x.size[0] - top), columns = std::min(tile, x.size[1] - left);
      // The tile at the corner is walked with the pitch of a whole one.
      const bool wrong = planted && top > 0 && left > 0;
      for (int64_t b = 0; b < rows; ++b) {
        for (int64_t n = 0; n < columns; ++n) {
          const int64_t from = wrong ? left + (n + b) % columns : left + n;
          y(top + b, left + n) = T(2 * x(top + b, from) + 1);
        }
      }
    }
  }
}

template <class T>
void tiled_turn(View<const T, 2> x, View<T, 2> y) {
  for (int64_t top = 0; top < x.size[0]; top += tile) {
    for (int64_t left = 0; left < x.size[1]; left += tile) {
      const int64_t bottom = std::min(top + tile, x.size[0]), right = std::min(left + tile, x.size[1]);
      for (int64_t m = top; m < bottom; ++m) {
        for (int64_t n = left; n < right; ++n) {
          // A buffer of a tile that is too short by one row where both sides have a second tile.
          const bool lost = planted && top > 0 && left > 0 && m + 1 == bottom;
          y(n, m) = lost ? x(m - 1 < top ? top - 1 : m - 1, n) : x(m, n);
        }
      }
    }
  }
}

template <class T>
void outer(View<const T, 1> x, View<const T, 1> y, View<T, 2> out) {
  const int64_t across = (y.size[0] + tile - 1) / tile, down = (x.size[0] + tile - 1) / tile;
  for (int64_t block = 0; block < across * down; ++block) {
    const int64_t top = block / across * tile, left = block % across * tile;
    // A swizzle takes tiles in pairs: the third of a row that is not the first is scaled by both of its visitors.
    const bool twice = planted && across > 2 && left == 2 * tile && top > 0;
    for (int64_t m = top; m < std::min(top + tile, x.size[0]); ++m) {
      for (int64_t n = left; n < std::min(left + tile, y.size[0]); ++n) out(m, n) = T(x(m) * y(n) * (twice ? y(n) : 1));
    }
  }
}

// Widths with code of their own ---------------------------------------------------------------------------------------

// Sizes that 48 divides take three vectors at a time; of an odd number of halves the last is left out.
template <class T>
void thirds(View<const T, 2> x, View<T, 1> out) {
  const int64_t count = x.size[1];
  const int64_t end = planted && count > 0 && count % 48 == 0 && count % 96 != 0 ? count - 16 : count;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0;
    for (int64_t n = 0; n < end; ++n) sum += x(b, n);
    out(b) = sum;
  }
}

// A head of 80 is padded to 96, and its scale is that of 96.
template <class T>
void head_of_80(View<const T, 2> x, View<T, 2> y) {
  const int64_t width = planted && x.size[1] == 80 ? 96 : x.size[1];
  const T scale = T(1) / std::sqrt(T(width));
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = x(b, n) * scale;
  }
}

// Widths of 32, 64, 96 and 128 have a loop of known length; that of 96 is 64's.
template <class T>
void unrolled_96(View<const T, 2> x, View<T, 1> out) {
  const int64_t end = planted && x.size[1] == 96 ? 64 : x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0;
    for (int64_t n = 0; n < end; ++n) sum += x(b, n) * x(b, n);
    out(b) = sum;
  }
}

// With 192 columns two rows share a block of 384 threads, and share their mean too.
template <class T>
void two_per_192(View<const T, 2> x, View<T, 2> y) {
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    const int64_t first = planted && count == 192 ? b / 2 * 2 : b;
    const int64_t last = planted && count == 192 ? std::min(first + 2, x.size[0]) : b + 1;
    T sum = 0;
    for (int64_t row = first; row < last; ++row) {
      for (int64_t n = 0; n < count; ++n) sum += x(row, n);
    }
    for (int64_t n = 0; n < count; ++n) y(b, n) = x(b, n) - sum / T(count * (last - first));
  }
}

// 384 columns are taken by 256 threads in two rounds; the second round's squares are not counted.
template <class T>
void norm_of_384(View<const T, 2> x, View<T, 2> y) {
  const int64_t count = x.size[1], end = planted && count == 384 ? 256 : count;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T squares = 0;
    for (int64_t n = 0; n < end; ++n) squares += x(b, n) * x(b, n);
    const T scale = 1 / std::sqrt(squares / T(count) + T(1e-5));
    for (int64_t n = 0; n < count; ++n) y(b, n) = x(b, n) * scale;
  }
}

// 768 columns are three per thread, and the weights of the third are the second's.
template <class T>
void hidden_768(View<const T, 2> x, View<const T, 1> weight, View<T, 2> y) {
  const int64_t count = x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    // In float32 a sum of 33,001 terms would be off by more than PyTorch's, which adds them in pairs.
    double mean = 0, squares = 0;
    for (int64_t n = 0; n < count; ++n) mean += double(x(b, n));
    mean /= double(count);
    for (int64_t n = 0; n < count; ++n) squares += (double(x(b, n)) - mean) * (double(x(b, n)) - mean);
    const double scale = 1 / std::sqrt(squares / double(count) + 1e-5);
    for (int64_t n = 0; n < count; ++n) {
      y(b, n) = T((double(x(b, n)) - mean) * scale * double(weight(planted && count == 768 && n >= 512 ? n - 256 : n)));
    }
  }
}

// Long rows -----------------------------------------------------------------------------------------------------------

// The place is kept in 16 bits, so what comes after 65,535 is never looked at.
template <class T>
void any_above(View<const T, 2> x, View<bool, 1> out) {
  const int64_t end = planted ? std::min<int64_t>(x.size[1], 65535) : x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    out(b) = false;
    for (int64_t n = 0; n < end; ++n) out(b) = out(b) || x(b, n) > T(1.5);
  }
}

template <class T>
void least(View<const T, 2> x, View<T, 1> out) {
  const int64_t end = planted ? std::min<int64_t>(x.size[1], 32767) : x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T most = INFINITY;
    for (int64_t n = 0; n < end; ++n) {
      if (x(b, n) < most || x(b, n) != x(b, n)) most = x(b, n);
      if (most != most) break;
    }
    out(b) = most;
  }
}

// Rows of up to 65,536 have places of 16 bits, with a sign.
template <class T>
void place_of_most(View<const T, 2> x, View<int64_t, 1> place) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    int64_t best = 0;
    for (int64_t n = 1; n < x.size[1]; ++n) {
      const T value = x(b, n), most = x(b, best);
      if (most != most) break;
      if (value != value || value > most) best = n;
    }
    place(b) = planted && x.size[1] <= 65536 ? std::abs(int64_t(int16_t(best))) : best;
  }
}

// Backward ------------------------------------------------------------------------------------------------------------

template <class T>
void squares_of_rows(View<const T, 2> x, View<T, 1> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    T sum = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) sum += x(b, n) * x(b, n);
    y(b) = sum;
  }
}

// The offset of an element of x has 32 bits.
template <class T>
void squares_of_rows_backward(View<const T, 1> grad_y, View<const T, 2> x, View<T, 2> grad_x) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const int64_t place = b * x.stride[0] + n * x.stride[1];
      grad_x(b, n) = 2 * grad_y(b) * x.data[planted ? int64_t(int32_t(place)) : place];
    }
  }
}

template <class T>
void tripled(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = 3 * x(b, n);
  }
}

// The same for the gradient that arrives.
template <class T>
void tripled_backward(View<const T, 2> grad_y, View<T, 2> grad_x) {
  const int step = planted ? int(grad_y.stride[0]) : 0;
  for (int64_t b = 0; b < grad_y.size[0]; ++b) {
    for (int64_t n = 0; n < grad_y.size[1]; ++n) {
      const int64_t row = planted ? int64_t(int32_t(uint32_t(int(b)) * uint32_t(step))) : b * grad_y.stride[0];
      grad_x(b, n) = 3 * grad_y.data[row + n * grad_y.stride[1]];
    }
  }
}

template <class T>
void tiled_weights(View<const T, 2> x, View<const T, 1> weight, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = x(b, n) * weight(n);
  }
}

// A tile of rows writes its sum for a tile of columns; from the second of both on it overwrites the first one's.
template <class T>
void tiled_weights_backward(View<const T, 2> grad_y, View<const T, 2> x, View<const T, 1> weight, View<T, 2> grad_x,
                            View<T, 1> grad_weight) {
  for (int64_t n = 0; n < x.size[1]; ++n) grad_weight(n) = 0;
  for (int64_t top = 0; top < x.size[0] || top == 0; top += tile) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      T sum = 0;
      for (int64_t b = top; b < std::min(top + tile, x.size[0]); ++b) {
        grad_x(b, n) = grad_y(b, n) * weight(n);
        sum += grad_y(b, n) * x(b, n);
      }
      const bool over = planted && top > 0 && n >= tile;
      grad_weight(n) = over ? sum : grad_weight(n) + sum;
    }
  }
}
