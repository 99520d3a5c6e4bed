// Where a tap of a deformable convolution reads, and with which weights: shared by the kernels for CPUs and GPUs.
//
// Places are computed in the type that sums are made in, by one addition to a whole number, which is exact up to 2^24
// in float. So every kernel and the definition find the same pixels.
#pragma once

#include <opsmith/kernel.h>

#include "../_boxes/bilinear.h"

namespace opsmith::ops::deform_conv2d {
namespace {

constexpr int64_t largest_number = int64_t{1} << 31;  // of strides, paddings and dilations

// The sizes and numbers of a call.
struct Convolution {
  int64_t images, channels, height, width;
  int64_t outputs, taps_y, taps_x, out_height, out_width;
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  int64_t groups, offset_groups;

  OPSMITH_HOST_DEVICE int64_t taps() const { return taps_y * taps_x; }
  OPSMITH_HOST_DEVICE int64_t positions() const { return out_height * out_width; }
  OPSMITH_HOST_DEVICE int64_t group_channels() const { return channels / groups; }
  OPSMITH_HOST_DEVICE int64_t group_outputs() const { return outputs / groups; }
  OPSMITH_HOST_DEVICE int64_t offset_group_channels() const { return channels / offset_groups; }

  // Where a tap reads at output (i, j), without an offset.
  OPSMITH_HOST_DEVICE int64_t grid_y(int64_t i, int64_t ky) const { return i * stride_y - pad_y + ky * dilation_y; }
  OPSMITH_HOST_DEVICE int64_t grid_x(int64_t j, int64_t kx) const { return j * stride_x - pad_x + kx * dilation_x; }
};

// The gradients of a call's tensors.
template <class T>
struct Gradients {
  View<T, 4> input, offset, weight;
  View<T, 1> bias;
  View<T, 4> mask;
};

// A point between four pixels: the one at the top left, and how far below it and right of it the point is.
template <class C>
struct Point {
  int64_t top, left;
  C below, right;
  bool is_outside;  // by a pixel or more: then nothing is sampled, and nothing has a gradient

  // Corners 0 to 3 are top left, top right, bottom left, bottom right.
  OPSMITH_HOST_DEVICE int64_t row(int corner) const { return top + corner / 2; }
  OPSMITH_HOST_DEVICE int64_t column(int corner) const { return left + corner % 2; }
  OPSMITH_HOST_DEVICE C weight(int corner) const { return bilinear::share(corner, below, right); }
};

// A NaN is not outside: no pixel is next to it, but its weights are NaN and make the sample so.
template <class C>
OPSMITH_HOST_DEVICE Point<C> locate(C y, C x, int64_t height, int64_t width) {
  Point<C> point{-2, -2, C(0), C(0), true};
  if (y <= C(-1) || y >= static_cast<C>(height) || x <= C(-1) || x >= static_cast<C>(width)) return point;
  point.is_outside = false;
  if (y == y && x == x) {
    point.top = bilinear::floor_of(y);
    point.left = bilinear::floor_of(x);
  }
  point.below = y - static_cast<C>(point.top);
  point.right = x - static_cast<C>(point.left);
  return point;
}

// What the operators are told of the filter, as sized.py declares it.
struct Geometry {
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x, groups, offset_groups;
};

// Which gradients are needed. Kernels go by the outputs instead: those that are not needed have no elements.
struct Needed {
  bool needs_grad_input, needs_grad_offset, needs_grad_weight, needs_grad_bias, needs_grad_mask;
};

// The call that the arguments of deform_conv2d_sized describe. Views of other gradients give the output's size.
template <class T, class Out>
Convolution read_arguments(const View<const T, 4>& input, const View<const T, 4>& weight, const View<Out, 4>& out,
                           const Geometry& at) {
  if (at.groups < 1 || at.offset_groups < 1) {
    fail("groups and offset_groups are at least 1; they are ", at.groups, " and ", at.offset_groups);
  }
  if (input.size[1] % at.offset_groups != 0) {
    fail("input has ", input.size[1], " channels, not a multiple of offset_groups = ", at.offset_groups);
  }
  if (weight.size[0] % at.groups != 0) {
    fail("weight has ", weight.size[0], " output channels, not a multiple of groups = ", at.groups);
  }
  for (const int64_t number : {at.stride_y, at.stride_x, at.pad_y, at.pad_x, at.dilation_y, at.dilation_x}) {
    if (number < -largest_number || number > largest_number) {
      fail("strides, paddings and dilations have at most 31 bits; found ", number);
    }
  }
  return {input.size[0],  input.size[1], input.size[2], input.size[3], weight.size[0],  weight.size[2],
          weight.size[3], out.size[2],   out.size[3],   at.stride_y,   at.stride_x,     at.pad_y,
          at.pad_x,       at.dilation_y, at.dilation_x, at.groups,     at.offset_groups};
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
