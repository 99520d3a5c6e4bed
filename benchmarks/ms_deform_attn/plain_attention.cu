// The straightforward kernels of multi-scale deformable attention: a thread a channel, atomics in the backward.
#include <opsmith/kernel.h>

using namespace opsmith;

namespace {

struct Sizes {
  int64_t pixels, heads, channels, queries, levels, points;
};

// A point's four pixels, as offsets from the head's first one or -1, and the weights between them.
struct Corners {
  int64_t pixel[4];
  float below, right;
  bool is_inside;

  __device__ float share(int k) const { return (k / 2 ? below : 1 - below) * (k % 2 ? right : 1 - right); }
};

__device__ Corners corners_of(float x, float y, int64_t height, int64_t width, int64_t start, int64_t pixels) {
  Corners corners{{-1, -1, -1, -1}, 0, 0, false};
  x = x * static_cast<float>(width) - 0.5f;
  y = y * static_cast<float>(height) - 0.5f;
  if (!(x > -1 && y > -1 && x < static_cast<float>(width) && y < static_cast<float>(height))) return corners;
  corners.is_inside = true;
  const int64_t top = static_cast<int64_t>(floorf(y)), left = static_cast<int64_t>(floorf(x));
  corners.below = y - static_cast<float>(top);
  corners.right = x - static_cast<float>(left);
  for (int k = 0; k < 4; ++k) {
    const int64_t row = top + k / 2, column = left + k % 2, index = start + row * width + column;
    if (row >= 0 && row < height && column >= 0 && column < width && index < pixels) corners.pixel[k] = index;
  }
  return corners;
}

__global__ void sum(Sizes sizes, const float* value, const int64_t* shapes, const int64_t* starts,
                    const float* locations, const float* weights, int64_t count, float* out) {
  const int64_t n = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (n >= count) return;
  const int64_t channel = n % sizes.channels, item = n / sizes.channels;  // [N Q M]
  const int64_t head = item % sizes.heads, image = item / sizes.heads / sizes.queries;
  const float* pixels = value + (image * sizes.pixels * sizes.heads + head) * sizes.channels + channel;
  float total = 0;
  for (int64_t l = 0; l < sizes.levels; ++l) {
    for (int64_t p = 0; p < sizes.points; ++p) {
      const int64_t point = (item * sizes.levels + l) * sizes.points + p;
      const Corners corners = corners_of(locations[2 * point], locations[2 * point + 1], shapes[2 * l],
                                         shapes[2 * l + 1], starts[l], sizes.pixels);
      float sample = 0;
      for (int k = 0; k < 4; ++k) {
        if (corners.pixel[k] >= 0) {
          sample += corners.share(k) * pixels[corners.pixel[k] * sizes.heads * sizes.channels];
        }
      }
      total += weights[point] * sample;
    }
  }
  out[n] = total;
}

// A block has one query and head, and a thread one channel.
__global__ void spread(Sizes sizes, const float* grad_out, const float* value, const int64_t* shapes,
                       const int64_t* starts, const float* locations, const float* weights, float* grad_value,
                       float* grad_locations, float* grad_weights) {
  extern __shared__ float sums[];  // three of each thread
  const int64_t item = blockIdx.x, channel = threadIdx.x;
  const int64_t head = item % sizes.heads, image = item / sizes.heads / sizes.queries;
  const int64_t own = (image * sizes.pixels * sizes.heads + head) * sizes.channels + channel;
  const float gradient = grad_out[item * sizes.channels + channel];
  for (int64_t l = 0; l < sizes.levels; ++l) {
    for (int64_t p = 0; p < sizes.points; ++p) {
      const int64_t point = (item * sizes.levels + l) * sizes.points + p, height = shapes[2 * l];
      const int64_t width = shapes[2 * l + 1];
      const Corners corners =
          corners_of(locations[2 * point], locations[2 * point + 1], height, width, starts[l], sizes.pixels);
      float pixel[4] = {}, sample = 0;
      for (int k = 0; k < 4; ++k) {
        if (corners.pixel[k] < 0) continue;
        const int64_t place = own + corners.pixel[k] * sizes.heads * sizes.channels;
        pixel[k] = value[place];
        sample += corners.share(k) * pixel[k];
        atomicAdd(grad_value + place, weights[point] * corners.share(k) * gradient);
      }
      const float along_x = (1 - corners.below) * (pixel[1] - pixel[0]) + corners.below * (pixel[3] - pixel[2]);
      const float along_y = (1 - corners.right) * (pixel[2] - pixel[0]) + corners.right * (pixel[3] - pixel[1]);
      sums[3 * channel] = gradient * sample;
      sums[3 * channel + 1] = gradient * weights[point] * along_x * static_cast<float>(width);
      sums[3 * channel + 2] = gradient * weights[point] * along_y * static_cast<float>(height);
      __syncthreads();
      for (int half = 1; half < sizes.channels; half *= 2) {
        if (channel % (2 * half) == 0 && channel + half < sizes.channels) {
          for (int k = 0; k < 3; ++k) sums[3 * channel + k] += sums[3 * (channel + half) + k];
        }
        __syncthreads();
      }
      if (channel == 0) {
        grad_weights[point] = sums[0];
        grad_locations[2 * point] = corners.is_inside ? sums[1] : 0;
        grad_locations[2 * point + 1] = corners.is_inside ? sums[2] : 0;
      }
      __syncthreads();
    }
  }
}

Sizes sizes_of(const View<const float, 4>& value, const View<const float, 6>& locations) {
  return {value.size[1], value.size[2], value.size[3], locations.size[1], locations.size[3], locations.size[4]};
}

}  // namespace

void plain_attention(View<const float, 4> value, View<const int64_t, 2> shapes, View<const int64_t, 1> starts,
                     View<const float, 6> locations, View<const float, 5> weights, View<float, 3> out, Stream stream) {
  if (!value.is_contiguous() || !locations.is_contiguous() || !weights.is_contiguous()) fail("contiguous tensors only");
  if (out.numel() == 0) return;
  sum<<<blocks_for(out.numel(), 256), 256, 0, stream>>>(sizes_of(value, locations), value.data, shapes.data,
                                                        starts.data, locations.data, weights.data, out.numel(),
                                                        out.data);
  check_launch("plain_attention");
}

void plain_attention_backward(View<const float, 3> grad_out, View<const float, 4> value, View<const int64_t, 2> shapes,
                              View<const int64_t, 1> starts, View<const float, 6> locations,
                              View<const float, 5> weights, View<float, 4> grad_value, View<float, 6> grad_locations,
                              View<float, 5> grad_weights, Stream stream) {
  if (!grad_out.is_contiguous() || value.size[3] > 1024) fail("contiguous tensors of up to 1,024 channels only");
  if (grad_value.numel() == 0 || grad_out.numel() == 0) return;
  cudaMemsetAsync(grad_value.data, 0, static_cast<size_t>(grad_value.numel()) * sizeof(float), stream);
  const Sizes sizes = sizes_of(value, locations);
  const auto blocks = static_cast<unsigned>(value.size[0] * sizes.queries * sizes.heads);
  const auto threads = static_cast<unsigned>(sizes.channels);
  spread<<<blocks, threads, 3 * threads * sizeof(float), stream>>>(
      sizes, grad_out.data, value.data, shapes.data, starts.data, locations.data, weights.data, grad_value.data,
      grad_locations.data, grad_weights.data);
  check_launch("plain_attention_backward");
}
