// The generalized IoU loss of pairs of boxes on the CPU.
#include <opsmith/reduce.h>

#include "paired.h"

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

constexpr int64_t grain = 4096;  // pairs

template <class C>
void write_all(const LossGradients<C>& gradients) {
  parallel_for(0, gradients.pairs(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) gradients.write(k);
  });
}

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
  write_all(LossGradients<T>(grad_losses, T(1), boxes1, boxes2, eps, grad_boxes1, grad_boxes2));
}

template <class T>
void giou_loss_sum(View<const T, 2> boxes1, View<const T, 2> boxes2, double eps, bool mean, View<T, 0> loss) {
  const int64_t pairs = boxes1.size[0];
  const double sum = sum_parts(pairs, [&](int64_t begin, int64_t end) {
    double part = 0;
    for (int64_t k = begin; k < end; ++k) {
      part += loss_of(read_box(boxes1, k), read_box(boxes2, k), static_cast<T>(eps));
    }
    return part;
  });
  *loss.data = static_cast<T>(mean ? sum / static_cast<double>(pairs) : sum);
}

template <class T>
void giou_loss_sum_backward(View<const T, 0> grad_loss, View<const T, 2> boxes1, View<const T, 2> boxes2, double eps,
                            bool mean, Needed, View<T, 2> grad_boxes1, View<T, 2> grad_boxes2) {
  const int64_t pairs = boxes1.size[0];
  write_all(LossGradients<T>(of_each(grad_loss, pairs), share_of_each<T>(pairs, mean), boxes1, boxes2, eps, grad_boxes1,
                             grad_boxes2));
}
