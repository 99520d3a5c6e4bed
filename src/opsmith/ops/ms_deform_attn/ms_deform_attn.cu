// Multi-scale deformable attention on a GPU.
#include "backward.cuh"
#include "forward.cuh"

using namespace opsmith;
using namespace opsmith::ops::ms_deform_attn;

template <class T>
void ms_deform_attn_sampled(View<const T, 4> value, View<const int64_t, 2> spatial_shapes,
                            View<const int64_t, 1> level_start_index, View<const T, 6> sampling_locations,
                            View<const T, 5> attention_weights, View<T, 3> out, Stream stream) {
  const Call<T> call{value, spatial_shapes, level_start_index, sampling_locations, attention_weights};
  check_sizes(call);
  if (out.numel() == 0) return;
  launch_sums(call, out, stream);
  check_launch("ms_deform_attn_sampled");
}

template <class T>
void ms_deform_attn_sampled_backward(View<const T, 3> grad_out, View<const T, 4> value,
                                     View<const int64_t, 2> spatial_shapes, View<const int64_t, 1> level_start_index,
                                     View<const T, 6> sampling_locations, View<const T, 5> attention_weights, Needed,
                                     View<T, 4> grad_value, View<T, 6> grad_sampling_locations,
                                     View<T, 5> grad_attention_weights, Stream stream) {
  const Call<T> call{value, spatial_shapes, level_start_index, sampling_locations, attention_weights};
  check_sizes(call);
  launch_backward(call, grad_out, grad_value, grad_sampling_locations, grad_attention_weights, stream);
  check_launch("ms_deform_attn_sampled_backward");
}
