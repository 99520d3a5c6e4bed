// Focal loss on the CPU, for targets that are the index of a class in each row.
//
// A block of elements gets a block of signs, 1 for its row's class and -1 for any other. With those it is elementwise.
#include <opsmith/reduce.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "focal.h"

using namespace opsmith;
using namespace opsmith::ops::sigmoid_focal_loss;

namespace opsmith::ops::sigmoid_focal_loss {
namespace {

// Calls f(row, column, offset, count) for the pieces of rows that the n elements from `begin` on consist of.
template <class F>
void for_each_piece(int64_t begin, int64_t n, int64_t columns, const F& f) {
  int64_t row = begin / columns, column = begin % columns;
  for (int64_t offset = 0; offset < n; ++row, column = 0) {
    const int64_t count = std::min(columns - column, n - offset);
    f(row, column, offset, count);
    offset += count;
  }
}

// n elements of a matrix in row-major order: where they lie, or a copy of them.
template <class T>
const compute_t<T>* read_block(const View<const T, 2>& from, int64_t begin, int64_t n, compute_t<T>* copy) {
  if (from.is_contiguous()) {
    if constexpr (std::is_same_v<T, compute_t<T>>) return from.data + begin;
    load_block(from.data + begin, 1, n, copy);
  } else {
    for_each_piece(begin, n, from.size[1], [&](int64_t row, int64_t column, int64_t offset, int64_t count) {
      load_block(&from(row, column), from.stride[1], count, copy + offset);
    });
  }
  return copy;
}

// out[k] = f(grads[k]..., x[k], sign of k) for a block of at most block_size elements; 0 in rows that are ignored, NaN
// in those of a class that there is not.
template <class T, class F, class... Grads>
void map_classes(const F& f, const View<const T, 2>& x, const View<const int64_t, 1>& targets, int64_t begin, int64_t n,
                 compute_t<T>* out, const Grads*... grads) {
  using C = compute_t<T>;
  const int64_t columns = x.size[1];
  C signs[block_size], copy[block_size];
  bool is_plain = true;
  for_each_piece(begin, n, columns, [&](int64_t row, int64_t column, int64_t offset, int64_t count) {
    const int64_t target = targets(row);
    std::fill_n(signs + offset, count, C(-1));
    if (target >= column && target < column + count) signs[offset + target - column] = C(1);
    is_plain = is_plain && target >= 0 && target <= columns;
  });
  elementwise_block(f, n, out, grads..., read_block(x, begin, n, copy), static_cast<const C*>(signs));
  if (is_plain) return;
  for_each_piece(begin, n, columns, [&](int64_t row, int64_t, int64_t offset, int64_t count) {
    const int64_t target = targets(row);
    if (target < 0) std::fill_n(out + offset, count, C(0));
    if (target > columns) std::fill_n(out + offset, count, std::numeric_limits<C>::quiet_NaN());
  });
}

// Calls f(begin, n) for blocks that cover all n elements, in parallel.
template <class F>
void for_each_block(int64_t n, const F& f) {
  constexpr int64_t grain = 32;  // blocks that take some 10 us
  parallel_for(0, (n + block_size - 1) / block_size, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first * block_size; i < std::min(n, last * block_size); i += block_size) {
      f(i, std::min(block_size, n - i));
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::sigmoid_focal_loss

template <class T>
void focal_loss_classes(View<const T, 2> inputs, View<const int64_t, 1> targets, double alpha, double gamma,
                        View<T, 2> loss) {
  using C = compute_t<T>;
  with_power<C>(gamma, [&](auto power) {
    for_each_block(inputs.numel(), [&](int64_t begin, int64_t n) {
      OutputBlock<T> out(loss.data + begin, 1, n);
      map_classes(ClassLoss<C, decltype(power)>(alpha, power), inputs, targets, begin, n, out.data);
      out.store();
    });
  });
}

template <class T>
void focal_loss_classes_backward(View<const T, 2> grad_loss, View<const T, 2> inputs, View<const int64_t, 1> targets,
                                 double alpha, double gamma, View<T, 2> grad_inputs) {
  using C = compute_t<T>;
  with_power<C>(gamma, [&](auto power) {
    const TimesEach<ClassSlope<C, decltype(power)>> slope{{alpha, power}};
    for_each_block(inputs.numel(), [&](int64_t begin, int64_t n) {
      C copy[block_size];
      OutputBlock<T> out(grad_inputs.data + begin, 1, n);
      map_classes(slope, inputs, targets, begin, n, out.data, read_block(grad_loss, begin, n, copy));
      out.store();
    });
  });
}

template <class T>
void focal_loss_classes_sum(View<const T, 2> inputs, View<const int64_t, 1> targets, double alpha, double gamma,
                            bool mean, View<T, 0> loss) {
  using C = compute_t<T>;
  with_power<C>(gamma, [&](auto power) {
    const double sum = sum_parts(inputs.numel(), [&](int64_t begin, int64_t end) {
      double part = 0;
      C terms[block_size];
      for (int64_t i = begin; i < end; i += block_size) {
        const int64_t n = std::min(block_size, end - i);
        map_classes(ClassLoss<C, decltype(power)>(alpha, power), inputs, targets, i, n, terms);
        part += sum_block(n, terms);
      }
      return part;
    });
    *loss.data = static_cast<T>(static_cast<C>(mean ? sum / static_cast<double>(inputs.numel()) : sum));
  });
}

template <class T>
void focal_loss_classes_sum_backward(View<const T, 0> grad_loss, View<const T, 2> inputs,
                                     View<const int64_t, 1> targets, double alpha, double gamma, bool mean,
                                     View<T, 2> grad_inputs) {
  using C = compute_t<T>;
  const C grad = static_cast<C>(*grad_loss.data) / (mean ? static_cast<C>(inputs.numel()) : C(1));
  with_power<C>(gamma, [&](auto power) {
    const Times<C, ClassSlope<C, decltype(power)>> slope{{alpha, power}, grad};
    for_each_block(inputs.numel(), [&](int64_t begin, int64_t n) {
      OutputBlock<T> out(grad_inputs.data + begin, 1, n);
      map_classes(slope, inputs, targets, begin, n, out.data);
      out.store();
    });
  });
}
