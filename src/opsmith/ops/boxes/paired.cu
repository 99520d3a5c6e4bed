// The generalized IoU loss of pairs of boxes on a GPU: a thread has a pair.
#include "paired.h"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int threads = 128;

template <class T>
__global__ void __launch_bounds__(threads)
    find_losses(View<const T, 2> boxes1, View<const T, 2> boxes2, T eps, View<T, 1> losses) {
  for (int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x; k < losses.size[0]; k += int64_t{gridDim.x} * threads) {
    losses(k) = loss_of(read_box(boxes1, k), read_box(boxes2, k), eps);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) find_gradients(LossGradients<T> gradients) {
  const int64_t pairs = gradients.grad_losses.size[0];
  for (int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x; k < pairs; k += int64_t{gridDim.x} * threads) {
    gradients.write(k);
  }
}

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void giou_losses(View<const T, 2> boxes1, View<const T, 2> boxes2, double eps, View<T, 1> losses, Stream stream) {
  if (losses.numel() == 0) return;
  find_losses<<<blocks_for(losses.size[0], threads), threads, 0, stream>>>(boxes1, boxes2, static_cast<T>(eps), losses);
  check_launch("giou_losses");
}

template <class T>
void giou_losses_backward(View<const T, 1> grad_losses, View<const T, 2> boxes1, View<const T, 2> boxes2, double eps,
                          Needed, View<T, 2> grad_boxes1, View<T, 2> grad_boxes2, Stream stream) {
  if (grad_losses.numel() == 0) return;
  const LossGradients<T> gradients{grad_losses,
                                   boxes1,
                                   boxes2,
                                   static_cast<T>(eps),
                                   grad_boxes1,
                                   grad_boxes2,
                                   grad_boxes1.numel() > 0,
                                   grad_boxes2.numel() > 0};
  find_gradients<<<blocks_for(grad_losses.size[0], threads), threads, 0, stream>>>(gradients);
  check_launch("giou_losses_backward");
}
