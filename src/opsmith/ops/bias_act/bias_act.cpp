// bias_act on the CPU.
//
// Each loop runs over a block of elements with a block of biases beside it: where a block is of one channel they are
// all the same. That is one form for every layout, so each activation is compiled once.
#include <opsmith/divide.h>
#include <opsmith/reduce.h>

#include <algorithm>
#include <vector>

#include "../_filters/activations.h"

using namespace opsmith;
using namespace opsmith::ops::filters;

namespace opsmith::ops::bias_act {
namespace {

// Elements that one thread had better do alone: some 10 us.
constexpr int64_t grain = 32768;

// How many tasks to share between threads. Sums are made in as many parts, so the number of threads has no say in it.
int64_t tasks_for(int64_t elements) { return std::min(int64_t{256}, divide_up(elements, grain)); }

template <class T>
compute_t<T> bias_of(const View<const T, 1>& b, int64_t channel) {
  return b ? static_cast<compute_t<T>>(b(channel)) : no_bias<compute_t<T>>;
}

// f for blocks of elements, out = f(in..., bias), behind a pointer: so the walks through a tensor are compiled for each
// element type, and not for each activation again.
template <class C, class... In>
struct BlockMap {
  const void* f;
  void (*run)(const void* f, int64_t n, C* out, const In*... in, const C* bias);

  template <class F>
  explicit BlockMap(const F* function)
      : f(function), run([](const void* f, int64_t n, C* out, const In*... in, const C* bias) {
          elementwise_block(*static_cast<const F*>(f), n, out, in..., bias);
        }) {}

  void operator()(int64_t n, C* out, const In*... in, const C* bias) const { run(f, n, out, in..., bias); }
};

// sums[k] += from[k].
template <class From, class To>
void add_block(int64_t n, const From* from, To* sums) {
  with_best_isa(
      [](int64_t n, const From* __restrict__ from, To* __restrict__ sums) {
        for (int64_t k = 0; k < n; ++k) sums[k] += static_cast<To>(from[k]);
      },
      n, from, sums);
}

// How many rows are added up in the type to compute in before their sum goes to a double: that is half as much to load
// and store for each of them.
constexpr int64_t rows_at_once = 16;

// out = f(in..., b) for tensors [N, C, L] whose channels are long rows. sums[c] grows by the sum of channel c's
// results; none are made where it is null.
template <class T, class... In>
void map_rows(const BlockMap<compute_t<T>, compute_t<In>...>& f, const View<const T, 1>& b, double* sums,
              const View<T, 3>& out, const View<const In, 3>&... in) {
  constexpr int64_t piece = 16 * block_size;
  const int64_t channels = out.size[1], length = out.size[2];
  const int64_t pieces = divide_up(length, piece), units = out.size[0] * pieces;
  const int64_t parts = std::min(units, divide_up(tasks_for(out.numel()), channels));
  std::vector<double> partial(sums == nullptr ? 0 : channels * parts);
  const int64_t elements = divide_up(units, parts) * std::min(length, piece);
  parallel_for(0, channels * parts, std::max(int64_t{1}, grain / elements), [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t channel = task / parts, part = task % parts;
      compute_t<T> bias[block_size];
      std::fill_n(bias, block_size, bias_of(b, channel));
      double sum = 0;
      for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
        const int64_t n = unit / pieces, begin = unit % pieces * piece, end = std::min(begin + piece, length);
        for (int64_t i = begin; i < end; i += block_size) {
          const int64_t count = std::min(block_size, end - i);
          OutputBlock<T> result(&out(n, channel, i), out.stride[2], count);
          f(count, result.data, InputBlock<In>(&in(n, channel, i), in.stride[2], count).data..., bias);
          result.store();
          if (sums != nullptr) sum += sum_block(count, result.data);
        }
      }
      if (sums != nullptr) partial[task] = sum;
    }
  });
  for (int64_t i = 0; i < static_cast<int64_t>(partial.size()); ++i) sums[i / parts] += partial[i];
}

// Which channel a column of a matrix belongs to: `length` columns next to each other have one, and after the last
// channel the first comes again.
struct Columns {
  int64_t length, channels;

  int64_t channel(int64_t column) const { return column / length % channels; }
};

// The same for matrices whose rows go through the channels.
template <class T, class... In>
void map_columns(const BlockMap<compute_t<T>, compute_t<In>...>& f, const View<const T, 1>& b, const Columns& columns,
                 double* sums, const View<T, 2>& out, const View<const In, 2>&... in) {
  const int64_t rows = out.size[0], width = out.size[1];
  if (rows == 0) return;
  const int64_t blocks = divide_up(width, block_size),
                parts = std::min(rows, divide_up(tasks_for(out.numel()), blocks));
  std::vector<double> partial(sums == nullptr ? 0 : width * parts);
  const int64_t elements = divide_up(rows, parts) * std::min(width, block_size);
  parallel_for(0, blocks * parts, std::max(int64_t{1}, grain / elements), [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t begin = task / parts * block_size, part = task % parts, count = std::min(block_size, width - begin);
      compute_t<T> bias[block_size];
      for (int64_t k = 0; k < count; ++k) bias[k] = bias_of(b, columns.channel(begin + k));
      double sum[block_size] = {};
      compute_t<T> few[block_size] = {};
      const int64_t last_row = rows * (part + 1) / parts;
      for (int64_t row = rows * part / parts, added = 1; row < last_row; ++row, ++added) {
        OutputBlock<T> result(&out(row, begin), out.stride[1], count);
        f(count, result.data, InputBlock<In>(&in(row, begin), in.stride[1], count).data..., bias);
        result.store();
        if (sums == nullptr) continue;
        add_block(count, result.data, few);
        if (added % rows_at_once == 0 || row + 1 == last_row) {
          add_block(count, few, sum);
          std::fill_n(few, count, compute_t<T>(0));
        }
      }
      if (sums != nullptr) std::copy_n(sum, count, &partial[part * width + begin]);
    }
  });
  for (int64_t i = 0; i < static_cast<int64_t>(partial.size()); ++i) sums[columns.channel(i % width)] += partial[i];
}

// `count` rows from `first` on of a tensor [N, C, L], `fold` of which are one row of the matrix. Rows are dense unless
// L is 1.
template <class T>
View<T, 2> as_matrix(const View<T, 3>& tensor, int64_t first, int64_t count, int64_t fold) {
  const bool is_column = tensor.size[2] == 1 && fold == 1;
  return {tensor.data + first * tensor.stride[0],
          {count / fold, tensor.size[1] * tensor.size[2] * fold},
          {tensor.stride[0] * fold, is_column ? tensor.stride[1] : 1}};
}

// out = f(in..., b) for tensors [N, C, L] of any strides.
template <class T, class... In>
void map(const BlockMap<compute_t<T>, compute_t<In>...>& f, const View<const T, 1>& b, double* sums,
         const View<T, 3>& out, const View<const In, 3>&... in) {
  if (out.numel() == 0) return;
  const int64_t length = out.size[2], width = out.size[1] * length;
  const bool dense = (out.is_contiguous() && ... && in.is_contiguous());
  // Short rows of one channel are not worth a loop each.
  if (length > 1 && !(dense && length < block_size / 4)) return map_rows(f, b, sums, out, in...);
  const Columns columns{length, out.size[1]};
  const int64_t fold = dense && width < block_size / 2 ? std::min(block_size / width, out.size[0]) : 1;
  const int64_t whole = out.size[0] / fold * fold, rest = out.size[0] - whole;
  map_columns(f, b, columns, sums, as_matrix(out, 0, whole, fold), as_matrix(in, 0, whole, fold)...);
  map_columns(f, b, columns, sums, as_matrix(out, whole, rest, 1), as_matrix(in, whole, rest, 1)...);
}

}  // namespace
}  // namespace opsmith::ops::bias_act

using namespace opsmith::ops::bias_act;

template <class T>
void bias_activation(View<const T, 3> x, View<const T, 1> b, const char* act, double alpha, double gain,
                     Optional<double> clamp, View<T, 3> y) {
  using C = compute_t<T>;
  const Output<C> output(gain, clamp);
  with_activation<C>(act, alpha, [&](auto activation) {
    const Forward<C, decltype(activation)> f{activation, output};
    map(BlockMap<C, C>(&f), b, nullptr, y, x);
  });
}

template <class T>
void bias_activation_backward(View<const T, 3> grad_y, View<const T, 3> x, View<const T, 1> b, const char* act,
                              double alpha, double gain, Optional<double> clamp, bool needs_grad_b, View<T, 3> grad_x,
                              View<T, 1> grad_b) {
  using C = compute_t<T>;
  const Output<C> output(gain, clamp);
  std::vector<double> sums(needs_grad_b ? x.size[1] : 0);
  with_activation<C>(act, alpha, [&](auto activation) {
    const Backward<C, decltype(activation)> f{activation, output};
    map(BlockMap<C, C, C>(&f), b, needs_grad_b ? sums.data() : nullptr, grad_x, grad_y, x);
  });
  for (int64_t c = 0; c < static_cast<int64_t>(sums.size()); ++c) grad_b(c) = static_cast<T>(static_cast<C>(sums[c]));
}
