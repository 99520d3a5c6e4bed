// The generalized IoU loss of pairs of boxes on the CPU.
#include "paired.h"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int64_t grain = 4096;  // pairs

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void giou_losses(View<const T, 2> boxes1, View<const T, 2> boxes2, double eps, View<T, 1> losses) {
  parallel_for(0, losses.size[0], grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      losses(k) = loss_of(read_box(boxes1, k), read_box(boxes2, k), static_cast<T>(eps));
    }
  });
}

template <class T>
void giou_losses_backward(View<const T, 1> grad_losses, View<const T, 2> boxes1, View<const T, 2> boxes2, double eps,
                          Needed, View<T, 2> grad_boxes1, View<T, 2> grad_boxes2) {
  const LossGradients<T> gradients{grad_losses,
                                   boxes1,
                                   boxes2,
                                   static_cast<T>(eps),
                                   grad_boxes1,
                                   grad_boxes2,
                                   grad_boxes1.numel() > 0,
                                   grad_boxes2.numel() > 0};
  parallel_for(0, grad_losses.size[0], grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) gradients.write(k);
  });
}
