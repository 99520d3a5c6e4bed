// What the forward keeps of u for the backward: two bits for each number.
//
// One says that the number is positive, and the other that nothing flows back through it, whatever the first one says:
// it was clamped, or there is no such number. A word has a block of 4 x 4, a row in each of its bytes, columns from the
// low bits on. Blocks begin where the forward's threads do, at u itself or two numbers before it; the backward's may
// begin anywhere in them.
#pragma once

#include "filtered_lrelu.h"

namespace opsmith::ops::filtered_lrelu {
namespace {

constexpr int sign_block = 4;
constexpr uint32_t is_positive = 1, is_blocked = 2;
// A block without numbers.
constexpr uint32_t blocked_block = 0xAAAAAAAAu;

// How many numbers blocks begin before u, along an axis.
OPSMITH_HOST_DEVICE constexpr int sign_shift(int64_t pad, int64_t up, int64_t down) {
  return static_cast<int>(((-pad - 1) % up + up) % up / down * down);
}

// The words of a call, if it has them: `rows` x `columns` of each plane, one plane behind the other.
struct Signs {
  uint32_t* data;
  int64_t channels;
  int rows, columns;
  int shift_y, shift_x;  // as above
  int u_height, u_width;

  __device__ uint32_t* plane(int64_t image, int64_t channel) const {
    return data + (image * channels + channel) * rows * columns;
  }
};

OPSMITH_HOST_DEVICE constexpr int divide_down(int a, int b) { return (a >= 0 ? a : a - b + 1) / b; }

// A thread's blocks on its way down its four columns, of which it writes one in each step.
class SignWriter {
 public:
  // The thread's first number of u is at row and column.
  __device__ SignWriter(const Signs& signs, int64_t image, int64_t channel, int row, int column, bool is_kept)
      : next_(signs.columns),
        u_row_(row),
        u_height_(signs.u_height),
        block_((row + signs.shift_y) / sign_block),
        blocks_(signs.rows) {
    const int block = (column + signs.shift_x) / sign_block;
    to_ = signs.plane(image, channel) + static_cast<int64_t>(block_) * signs.columns + block;
    if (!is_kept || block >= signs.columns) blocks_ = 0;
#pragma unroll
    for (int c = 0; c < sign_block; ++c) {
      const bool is_there = static_cast<unsigned>(column + c) < static_cast<unsigned>(signs.u_width);
      outside_ |= is_there ? 0 : is_blocked * 0x01010101u << 2 * c;
    }
  }

  __device__ void write(uint32_t bits) {
    if (block_ < blocks_) {
      const int above = -u_row_, left = u_height_ - u_row_;  // rows of the block without numbers, and with them
      uint32_t outside = outside_;
      if (above > 0) outside |= blocked_block & ((1u << 8 * above) - 1);
      if (left < sign_block) outside |= blocked_block << 8 * left;
      *to_ = (bits | outside) & ~(outside >> 1);
    }
    to_ += next_;
    u_row_ += sign_block;
    ++block_;
  }

 private:
  uint32_t* to_;
  int next_, u_row_, u_height_, block_, blocks_;
  uint32_t outside_ = 0;
};

// The bits of a thread's four columns, for four rows in each step, wherever in the blocks they lie.
template <int steps>
class SignReader {
 public:
  __device__ SignReader(const Signs& signs, int64_t image, int64_t channel, int row, int column, bool is_kept)
      : next_(signs.columns), blocks_(signs.rows) {
    const int y = row + signs.shift_y, x = column + signs.shift_x;
    block_ = divide_down(y, sign_block);
    const int first = divide_down(x, sign_block);
    down_ = 8 * (y - block_ * sign_block);
    across_ = 2 * (x - first * sign_block);
    from_ = signs.plane(image, channel) + static_cast<int64_t>(block_) * signs.columns + first;
#pragma unroll
    for (int k = 0; k < 2; ++k) has_[k] = is_kept && first + k >= 0 && first + k < signs.columns;
    read_row(above_);
  }

  // Begins to read what the next steps take.
  __device__ void read() {
#pragma unroll
    for (int s = 0; s < steps; ++s) read_row(held_[s]);
  }

  // The bits of the next step, as a block that begins with the thread's first column.
  __device__ uint32_t take() {
    uint32_t block[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      block[k] = joined(above_[k], held_[0][k]);
      above_[k] = held_[0][k];
#pragma unroll
      for (int s = 0; s + 1 < steps; ++s) held_[s][k] = held_[s + 1][k];
    }
    const uint32_t first = (0xFFu >> across_) * 0x01010101u;  // what is of the first of two blocks
    return (block[0] >> across_ & first) | (block[1] << (8 - across_) & ~first);
  }

 private:
  __device__ void read_row(uint32_t (&words)[2]) {
    const bool is_row = static_cast<unsigned>(block_) < static_cast<unsigned>(blocks_);
#pragma unroll
    for (int k = 0; k < 2; ++k) words[k] = is_row && has_[k] ? from_[k] : blocked_block;
    from_ += next_;
    ++block_;
  }

  // Rows of two blocks, of which one is below the other.
  __device__ uint32_t joined(uint32_t above, uint32_t below) const {
#if defined(__CUDA_ARCH__)
    return __funnelshift_r(above, below, static_cast<unsigned>(down_));
#else
    return static_cast<uint32_t>((uint64_t{below} << 32 | above) >> down_);
#endif
  }

  const uint32_t* from_;
  int next_, block_, blocks_;
  int down_, across_;  // bits of a block that are above the thread's rows, and before its columns
  bool has_[2];
  uint32_t above_[2], held_[steps][2];
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
