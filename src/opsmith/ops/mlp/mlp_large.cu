// What a large perceptron needs on a GPU beside matrix products: the ReLU's mask and the sums for the biases, in one
// pass over the gradient of the hidden units. All sums are taken in a fixed order.
#include "mlp_gpu.h"

#include <type_traits>

namespace opsmith::ops::mlp {
namespace {

constexpr int threads = 256;        // of a block
constexpr int columns_across = 32;  // groups of columns that a block does; its
                                    // other threads take further rows
constexpr int rows_down = threads / columns_across;

// partial[slab] = the sums of a matrix's columns over the rows of a slab. A matrix that may be written to, Element = T,
// is set to 0 before where a ReLU did not let through: one pass does both, over the largest matrix there is. `width`
// columns are one access.
template <int width, class T, class Element>
__global__ void __launch_bounds__(threads)
    sum_columns(View<Element, 2> matrix, View<const T, 2> hidden, View<compute_t<T>, 2> partial) {
  using C = compute_t<T>;
  __shared__ C shared[rows_down][columns_across * width];
  const int64_t column = (blockIdx.x * static_cast<int64_t>(columns_across) + threadIdx.x) * width;
  for (int64_t slab = blockIdx.y; slab < partial.size[0]; slab += gridDim.y) {
    const int64_t begin = slab * slab_rows;
    const int64_t end = begin + slab_rows < matrix.size[0] ? begin + slab_rows : matrix.size[0];
    C sum[width] = {};
    if (column < matrix.size[1]) {
#pragma unroll 4
      for (int64_t row = begin + threadIdx.y; row < end; row += rows_down) {
        Element* const place = &matrix(row, column);
        Vector<T, width> values = *reinterpret_cast<const Vector<T, width>*>(place);
        if constexpr (!std::is_const_v<Element>) {
          const auto activation = *reinterpret_cast<const Vector<T, width>*>(&hidden(row, column));
#pragma unroll
          for (int k = 0; k < width; ++k) {
            if (static_cast<C>(activation.item[k]) <= C(0)) values.item[k] = static_cast<T>(C(0));
          }
          *reinterpret_cast<Vector<T, width>*>(place) = values;
        }
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += static_cast<C>(values.item[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < width; ++k) shared[threadIdx.y][threadIdx.x * width + k] = sum[k];
    __syncthreads();
    for (int k = threadIdx.y * columns_across + threadIdx.x; k < columns_across * width; k += threads) {
      const int64_t target = blockIdx.x * static_cast<int64_t>(columns_across * width) + k;
      C total = 0;
      for (int row = 0; row < rows_down; ++row) total += shared[row][k];
      if (target < matrix.size[1]) partial(slab, target) = total;
    }
    __syncthreads();
  }
}

// The columns of `partial`, added up into the two vectors one behind the other.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_partials(View<const compute_t<T>, 2> partial, View<T, 1> first, View<T, 1> second) {
  using C = compute_t<T>;
  __shared__ C shared[rows_down][columns_across];
  const int64_t column = blockIdx.x * static_cast<int64_t>(columns_across) + threadIdx.x;
  C sum = 0;
  if (column < partial.size[1]) {
#pragma unroll 4
    for (int64_t slab = threadIdx.y; slab < partial.size[0]; slab += rows_down) sum += partial(slab, column);
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= partial.size[1]) return;
  for (int row = 1; row < rows_down; ++row) sum += shared[row][threadIdx.x];
  if (column < first.size[0]) {
    first(column) = static_cast<T>(sum);
  } else {
    second(column - first.size[0]) = static_cast<T>(sum);
  }
}

template <class T>
constexpr int widest = 16 / sizeof(T);

// Whether rows of a matrix can be read 16 bytes at a time.
template <class T>
bool allows_vectors(const View<T, 2>& matrix) {
  return matrix.stride[1] == 1 && matrix.size[1] % widest<T> == 0 && matrix.stride[0] % widest<T> == 0 &&
         is_aligned(matrix.data, 16);
}

template <int width, class T, class Element>
void launch_sum_columns(View<Element, 2> matrix, View<const T, 2> hidden, View<compute_t<T>, 2> partial,
                        Stream stream) {
  const int64_t slabs = partial.size[0];
  const dim3 blocks(blocks_for(matrix.size[1], columns_across * width), slabs < 65535 ? slabs : 65535);
  sum_columns<width><<<blocks, dim3(columns_across, rows_down), 0, stream>>>(matrix, hidden, partial);
}

}  // namespace

template <class T>
void mask_and_sum(View<T, 2> grad_hidden, View<const T, 2> hidden, View<const T, 2> grad_output,
                  View<compute_t<T>, 2> partial, void* opaque) {
  const Stream stream = static_cast<Stream>(opaque);
  const int64_t units = hidden.size[1], outputs = grad_output.size[1], slabs = partial.size[0];
  if (slabs == 0) return;
  View<compute_t<T>, 2> part = partial;
  if (units > 0) {
    part.size[1] = units;
    if (allows_vectors(grad_hidden) && allows_vectors(hidden)) {
      launch_sum_columns<widest<T>>(grad_hidden, hidden, part, stream);
    } else {
      launch_sum_columns<1>(grad_hidden, hidden, part, stream);
    }
  }
  if (outputs > 0) {
    part.data += units;
    part.size[1] = outputs;
    if (allows_vectors(grad_output)) {
      launch_sum_columns<widest<T>>(grad_output, hidden, part, stream);
    } else {
      launch_sum_columns<1>(grad_output, hidden, part, stream);
    }
  }
  check_launch("mlp_backward");
}

template <class T>
void sum_slabs(View<const compute_t<T>, 2> partial, View<T, 1> grad_bias1, View<T, 1> grad_bias2, void* stream) {
  if (partial.size[1] == 0) return;
  const dim3 block(columns_across, rows_down);
  sum_partials<T><<<blocks_for(partial.size[1], columns_across), block, 0, static_cast<Stream>(stream)>>>(
      partial, grad_bias1, grad_bias2);
  check_launch("mlp_backward");
}

#define OPSMITH_MLP(T)                                                                                         \
  template void mask_and_sum<T>(View<T, 2>, View<const T, 2>, View<const T, 2>, View<compute_t<T>, 2>, void*); \
  template void sum_slabs<T>(View<const compute_t<T>, 2>, View<T, 1>, View<T, 1>, void*);
OPSMITH_MLP(float16)
OPSMITH_MLP(bfloat16)
OPSMITH_MLP(float)
OPSMITH_MLP(double)
#undef OPSMITH_MLP

}  // namespace opsmith::ops::mlp
