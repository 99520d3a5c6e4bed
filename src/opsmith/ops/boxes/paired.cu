// The generalized IoU loss of pairs of boxes on a GPU: a thread has a pair.
#include <opsmith/reduce.h>

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
  const int64_t pairs = gradients.boxes1.size[0];
  for (int64_t k = int64_t{blockIdx.x} * threads + threadIdx.x; k < pairs; k += int64_t{gridDim.x} * threads) {
    gradients.write(k);
  }
}

template <class T>
__global__ void __launch_bounds__(GridSum::threads)
    sum_losses(View<const T, 2> boxes1, View<const T, 2> boxes2, T eps, double* partials) {
  let_next_kernel_come_up();
  const int64_t pairs = boxes1.size[0], step = int64_t{gridDim.x} * GridSum::threads;
  double sum = 0;
  for (int64_t k = int64_t{blockIdx.x} * GridSum::threads + threadIdx.x; k < pairs; k += step) {
    sum += loss_of(read_box(boxes1, k), read_box(boxes2, k), eps);
  }
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

template <class T>
void launch_gradients(const char* op, const LossGradients<T>& gradients, Stream stream) {
  if (gradients.pairs() == 0) return;
  find_gradients<<<blocks_for(gradients.pairs(), threads), threads, 0, stream>>>(gradients);
  check_launch(op);
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
  launch_gradients("giou_losses_backward",
                   LossGradients<T>(grad_losses, T(1), boxes1, boxes2, eps, grad_boxes1, grad_boxes2), stream);
}

template <class T>
void giou_loss_sum(View<const T, 2> boxes1, View<const T, 2> boxes2, double eps, bool mean, View<T, 0> loss,
                   Stream stream) {
  const int64_t pairs = boxes1.size[0];
  const GridSum sum(pairs);
  if (sum.blocks > 0) {
    sum_losses<<<sum.blocks, GridSum::threads, 0, stream>>>(boxes1, boxes2, static_cast<T>(eps), sum.partials());
  }
  sum.finish("giou_loss_sum", stream, mean ? static_cast<double>(pairs) : 1.0, loss);
}

template <class T>
void giou_loss_sum_backward(View<const T, 0> grad_loss, View<const T, 2> boxes1, View<const T, 2> boxes2, double eps,
                            bool mean, Needed, View<T, 2> grad_boxes1, View<T, 2> grad_boxes2, Stream stream) {
  const int64_t pairs = boxes1.size[0];
  launch_gradients("giou_loss_sum_backward",
                   LossGradients<T>(of_each(grad_loss, pairs), share_of_each<T>(pairs, mean), boxes1, boxes2, eps,
                                    grad_boxes1, grad_boxes2),
                   stream);
}
