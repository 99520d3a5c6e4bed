// The order in which a GPU makes the sums over taps and channels.
//
// A group's sum goes by runs: channels that are of one offset group, and at most `table_taps` taps, whose points a
// block keeps at hand. A run goes by steps of 64 bytes of channels of one tap: all taps of these channels, then those
// of the next, so that taps next to each other find their pixels in the first-level cache. The last channels of a run
// are filled up by zeros.
#pragma once

#include "gpu_samples.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

// The channels of a step.
template <class T>
constexpr int step_width = step_bytes / sizeof(T);

// All taps of the usual filter; of doubles, whose points take twice the memory, fewer.
template <class T>
constexpr int table_taps = sizeof(T) == 8 ? 4 : 9;

// The first channel is counted from that of the image, the first step from that of the group.
struct Run {
  int offset_group, channel, channels, tap, taps, first_step;

  OPSMITH_HOST_DEVICE int slices(int width) const { return (channels + width - 1) / width; }
};

// Numbers have 32 bits, which the host has checked: each block divides them a few times.
template <class T>
struct Runs {
  int group_channels, offset_group_channels, taps;

  OPSMITH_HOST_DEVICE explicit Runs(const Convolution& call)
      : group_channels(static_cast<int>(call.group_channels())),
        offset_group_channels(static_cast<int>(call.offset_group_channels())),
        taps(static_cast<int>(call.taps())) {}

  OPSMITH_HOST_DEVICE int count(int group) const {
    if (group_channels == 0 || taps == 0) return 0;
    return (((group + 1) * group_channels - 1) / offset_group_channels - first_offset_group(group) + 1) * parts();
  }

  OPSMITH_HOST_DEVICE Run operator()(int group, int index) const {
    const int first = first_offset_group(group), behind = (group + 1) * group_channels;
    const int segment = index / parts(), tap = index % parts() * table_taps<T>;
    const int offset_group = first + segment;
    const int channel = segment == 0 ? group * group_channels : offset_group * offset_group_channels;
    const int channels = channels_within(channel, behind);
    // Between the first offset group of a group and its last one they are whole.
    const int before = segment == 0 ? 0
                                    : slices(channels_within(group * group_channels, behind)) +
                                          (segment - 1) * slices(offset_group_channels);
    const int of_run = taps - tap < table_taps<T> ? taps - tap : table_taps<T>;
    return {offset_group, channel, channels, tap, of_run, before * taps + slices(channels) * tap};
  }

  OPSMITH_HOST_DEVICE int steps(int group) const {
    if (count(group) == 0) return 0;
    const Run last = (*this)(group, count(group) - 1);
    return last.first_step + slices(last.channels) * last.taps;
  }

 private:
  // How many runs have the same channels.
  OPSMITH_HOST_DEVICE int parts() const { return (taps + table_taps<T> - 1) / table_taps<T>; }

  OPSMITH_HOST_DEVICE int first_offset_group(int group) const { return group * group_channels / offset_group_channels; }
  OPSMITH_HOST_DEVICE int channels_within(int channel, int behind) const {
    const int left = behind - channel, of_group = offset_group_channels - channel % offset_group_channels;
    return left < of_group ? left : of_group;
  }
  static OPSMITH_HOST_DEVICE int slices(int channels) { return (channels + step_width<T> - 1) / step_width<T>; }
};

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
