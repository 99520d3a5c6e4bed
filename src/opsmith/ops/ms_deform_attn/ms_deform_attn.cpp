// Multi-scale deformable attention on the CPU.
#include "cpu.h"

using namespace opsmith;
using namespace opsmith::ops::ms_deform_attn;

template <class T>
void ms_deform_attn_sampled(View<const T, 4> value, View<const int64_t, 2> spatial_shapes,
                            View<const int64_t, 1> level_start_index, View<const T, 6> sampling_locations,
                            View<const T, 5> attention_weights, View<T, 3> out) {
  if (out.numel() == 0) return;
  Forward<T>{{value, sampling_locations, attention_weights, read_levels(spatial_shapes, level_start_index)}, out}.run();
}

template <class T>
void ms_deform_attn_sampled_backward(View<const T, 3> grad_out, View<const T, 4> value,
                                     View<const int64_t, 2> spatial_shapes, View<const int64_t, 1> level_start_index,
                                     View<const T, 6> sampling_locations, View<const T, 5> attention_weights, Needed,
                                     View<T, 4> grad_value, View<T, 6> grad_sampling_locations,
                                     View<T, 5> grad_attention_weights) {
  const Inputs<T> inputs{value, sampling_locations, attention_weights, read_levels(spatial_shapes, level_start_index)};
  Backward<T>{inputs, grad_out, grad_value, grad_sampling_locations, grad_attention_weights}.run();
}
