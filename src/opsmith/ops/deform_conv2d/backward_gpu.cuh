// The backward on a GPU, for some images, or some positions of one, at a time, whatever the batch is. The gradient of
// their samples is a product; pixels gather theirs from it; the points take what is their offsets' and masks', and
// leave samples in its place; these make a second product, which is the gradient of the weights.
#pragma once

#include "backward_pixels.cuh"

namespace opsmith::ops::deform_conv2d {
namespace {

constexpr int bias_parts = 64;

// sums[part][output]: a part of the rows [row][output]. A block has 32 outputs, of which eight threads share the rows.
template <class T>
__global__ void __launch_bounds__(tile_threads)
    sum_rows(const T* from, int64_t rows, int64_t outputs, compute_t<T>* sums) {
  using C = compute_t<T>;
  constexpr int sharing = tile_threads / lanes;
  __shared__ C shares[sharing][lanes];
  const int lane = threadIdx.x % lanes, share = threadIdx.x / lanes;
  const int64_t o = blockIdx.x * int64_t{lanes} + lane, end = rows * (blockIdx.y + 1) / bias_parts;
  C sum = 0;
  if (o < outputs) {
#pragma unroll 4
    for (int64_t row = rows * blockIdx.y / bias_parts + share; row < end; row += sharing) {
      sum += C(from[row * outputs + o]);
    }
  }
  shares[share][lane] = sum;
  __syncthreads();
  if (share > 0 || o >= outputs) return;
  for (int k = 1; k < sharing; ++k) sum += shares[k][lane];
  sums[blockIdx.y * outputs + o] = sum;
}

// Adds up the parts in their order.
template <class T>
__global__ void __launch_bounds__(tile_threads) sum_bias(const compute_t<T>* sums, View<T, 1> grad_bias) {
  const int64_t o = blockIdx.x * int64_t{tile_threads} + threadIdx.x, outputs = grad_bias.size[0];
  if (o >= outputs) return;
  compute_t<T> sum = 0;
#pragma unroll 8
  for (int part = 0; part < bias_parts; ++part) sum += sums[part * outputs + o];
  grad_bias(o) = T(sum);
}

// Gradients [image][position][output], side by side.
template <class T>
struct Outer {
  const T* data;
  bool has_vectors;

  Matrix<T> rows(const Convolution& call, const Piece& piece) const {
    const int outputs = static_cast<int>(call.group_outputs());
    return {data + (piece.image * call.positions() + piece.first) * call.outputs,
            call.outputs,
            static_cast<int>(piece.rows()),
            outputs,
            outputs,
            0,
            has_vectors};
  }
};

// How many numbers a copy of the gradient as `Outer` has; none where it is so already.
template <class T>
int64_t outer_size(const View<const T, 4>& grad_out) {
  const int64_t outputs = grad_out.size[1], width = grad_out.size[3];
  const bool is_dense = (grad_out.stride[1] == 1 || outputs == 1) && grad_out.stride[3] == outputs &&
                        grad_out.stride[2] == width * outputs &&
                        grad_out.stride[0] == grad_out.size[2] * width * outputs;
  return is_dense ? 0 : grad_out.numel();
}

// The gradients of all but the bias, and the memory for them.
template <class T, bool tf32>
class SampleBackward {
  using C = compute_t<T>;
  using Weights = WeightProduct<T, tf32>;

 public:
  SampleBackward(const Sampler<T>& sampler, const Outer<T>& outer, const Gradients<T>& to, Stream stream)
      : sampler_(sampler), outer_(outer), to_(to), stream_(stream) {}

  void run(const View<const T, 4>& weight) {
    const bool needs_gradients = needs_points_ || needs_input_;
    if (needs_gradients) {
      turn_weights<T, tf32><<<blocks_for(turned_, tile_threads), tile_threads, 0, stream_>>>(call_, weight, padded_,
                                                                                             row_, weights_.data);
    }
    pieces_.for_each([&](const Piece& piece) {
      if (needs_gradients) make_gradients(piece);
      if (needs_input_) gather(piece);
      if (needs_points_ || needs_weights_) visit(piece);
      if (needs_weights_) multiply(piece);
    });
    if (needs_weights_) {
      const dim3 blocks(static_cast<unsigned>(divide_up(columns_, tile_threads)),
                        static_cast<unsigned>(call_.outputs < 65535 ? call_.outputs : 65535));
      sum_weights<T><<<blocks, tile_threads, 0, stream_>>>(call_, sums_.data, grid_.parts, grid_.down * Weights::rows,
                                                           padded_, to_.weight);
    }
  }

 private:
  void make_gradients(const Piece& piece) {
    const Matrix<T> factors{weights_.data, row_, padded_, outputs_, outputs_, 0, true};
    const int64_t blocks = divide_up(piece.rows(), block_rows) * call_.groups * grid_.across;
    launch_product<SampleProduct<T, tf32>>(multiply_weights<T, tf32>, blocks, stream_, call_, outer_.rows(call_, piece),
                                           factors, grid_.across, samples_.data);
  }

  void gather(const Piece& piece) {
    if (pieces_.divide_images()) {
      lists_ = room_.list(sampler_, piece, stream_);
    } else if (piece.image % listed_images_ == 0) {
      const int64_t left = call_.images - piece.image;
      const Piece listed{piece.image, listed_images_ < left ? listed_images_ : left, piece.first, piece.positions};
      lists_ = room_.list(sampler_, listed, stream_);
    }
    const int64_t of_block = lanes * chunk_width<T>;
    const PixelGrid grid{static_cast<int>(divide_up(call_.width, patch_width)),
                         static_cast<int>(divide_up(call_.height, patch_height)),
                         static_cast<int>(divide_up(call_.offset_group_channels(), of_block))};
    const int64_t blocks = int64_t{grid.across} * grid.down * grid.parts * piece.images * call_.offset_groups;
    const auto run = [&](auto* kernel) {
      kernel<<<grid_of(blocks), tile_threads, 0, stream_>>>(call_, piece, grid, lists_, samples_.data, total_.data,
                                                            to_.input);
    };
    call_.offset_group_channels() % run_length<T> == 0 ? run(gather_pixels<T, true>) : run(gather_pixels<T, false>);
  }

  void visit(const Piece& piece) {
    const int64_t rows = (piece.first + piece.positions - 1) / call_.out_width - piece.first / call_.out_width + 1;
    const int across = static_cast<int>(divide_up(call_.out_width, patch_width));
    const int down = static_cast<int>(divide_up(rows, patch_height));
    const int64_t blocks = int64_t{across} * down * piece.images * call_.offset_groups;
    const PointTasks tasks{needs_points_, needs_weights_, tf32};
    const auto run = [&](auto* kernel) {
      kernel<<<grid_of(blocks), tile_threads, 0, stream_>>>(sampler_, piece, tasks, across, down, samples_.data,
                                                            to_.offset, to_.mask);
    };
    sampler_.pixels.has_vectors ? run(visit_points<T, true>) : run(visit_points<T, false>);
  }

  void multiply(const Piece& piece) {
    const bool is_first = piece.image == 0 && piece.first == 0;
    const Matrix<T> made{samples_.data, call_.taps() * call_.channels,    static_cast<int>(piece.rows()), columns_,
                         channels_,     static_cast<int>(call_.channels), channels_ % run_length<T> == 0};
    const int64_t blocks = int64_t{grid_.across} * grid_.down * call_.groups * grid_.parts;
    launch_product<Weights>(multiply_samples<T, tf32>, blocks, stream_, call_, outer_.rows(call_, piece), made, grid_,
                            is_first, sums_.data);
  }

  // As many parts as keep the multiprocessors of a large GPU busy, but none without a step.
  WeightGrid weight_grid() const {
    const int across = static_cast<int>(divide_up(columns_, block_columns<T>));
    const int down = static_cast<int>(divide_up(outputs_, Weights::rows));
    const int64_t wanted = 132 / (across * down * call_.groups), most = divide_up(pieces_.rows(), Weights::steps);
    const int64_t parts = wanted < most ? wanted : most;
    return {across, down, static_cast<int>(parts > 1 ? parts : 1)};
  }

  // Points are listed for several pieces at once, up to 2^20 of them, because the kernels for that are short.
  int64_t count_listed_images() const {
    const int64_t points = pieces_.rows() * call_.offset_groups * call_.taps(), several = (int64_t{1} << 20) / points;
    const int64_t images = pieces_.divide_images() || several < 1 ? pieces_.images : several * pieces_.images;
    return images < call_.images ? images : call_.images;
  }

  const Sampler<T>& sampler_;
  const Convolution& call_ = sampler_.call;
  const Outer<T>& outer_;
  const Gradients<T>& to_;
  const Stream stream_;
  const bool needs_points_ = to_.offset.numel() + to_.mask.numel() > 0;
  const bool needs_weights_ = to_.weight.numel() > 0, needs_input_ = to_.input.numel() > 0;
  const Pieces pieces_{call_, sizeof(T)};
  const int outputs_ = static_cast<int>(call_.group_outputs()), channels_ = static_cast<int>(call_.group_channels());
  const int columns_ = static_cast<int>(call_.taps()) * channels_;
  const WeightGrid grid_ = weight_grid();
  const int padded_ = grid_.across * block_columns<T>;
  const int64_t row_ = divide_up(outputs_, vector_width) * vector_width, turned_ = call_.groups * padded_ * row_;
  const int64_t listed_images_ = count_listed_images();

  const Workspace<T> samples_{pieces_.rows() * call_.taps() * call_.channels};
  const Workspace<T> weights_{turned_};
  const Workspace<C> sums_{needs_weights_ ? grid_.parts * call_.groups * grid_.down * Weights::rows * padded_ : 1};
  const Workspace<C> total_{pieces_.divide_images() && needs_input_ ? call_.height * call_.width * call_.channels : 1};
  const ListRoom<C> room_{call_, needs_input_ ? listed_images_ : 0,
                          needs_input_ ? listed_images_ * pieces_.rows() / pieces_.images : 0};
  Lists<C> lists_{};
};

// Gradients without a term.
template <class T>
__global__ void __launch_bounds__(tile_threads) clear(View<T, 4> to) {
  const int64_t count = to.numel();
  for (int64_t n = blockIdx.x * int64_t{tile_threads} + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * tile_threads) {
    const int64_t x = n % to.size[3], y = n / to.size[3] % to.size[2], c = n / to.size[3] / to.size[2] % to.size[1];
    to(n / to.size[3] / to.size[2] / to.size[1], c, y, x) = T(0.0f);
  }
}

template <class T>
void differentiate(const Convolution& call, const View<const T, 4>& grad_out, const View<const T, 4>& input,
                   const View<const T, 4>& offset, const View<const T, 4>& weight, const View<const T, 4>& mask,
                   bool tf32, const Gradients<T>& to, Stream stream) {
  if (call.taps() * call.channels >= int64_t{1} << 31 || call.outputs >= int64_t{1} << 31) {
    fail("deform_conv2d()'s gradient on a GPU takes fewer than 2^31 channels times taps, and outputs; found ",
         call.channels, " x ", call.taps(), ", and ", call.outputs);
  }
  const int64_t outer_copied = outer_size(grad_out);
  const Workspace<T> outer_room(outer_copied > 0 ? outer_copied : 1);
  const Pixels<T> gradients = pixels_of(grad_out, call.group_outputs() % vector_width == 0,
                                        outer_copied > 0 ? outer_room.data : nullptr, stream);
  const Outer<T> outer{gradients.data, gradients.has_vectors};
  const int64_t sizes[] = {call.images, call.positions(), call.taps(), call.channels, call.outputs};
  bool is_empty = false;
  for (const int64_t size : sizes) is_empty = is_empty || size == 0;
  if (is_empty) {
    const View<T, 4> all[] = {to.input, to.offset, to.weight, to.mask};
    for (const View<T, 4>& view : all) {
      if (view.numel() > 0) clear<T><<<blocks_for(view.numel(), tile_threads), tile_threads, 0, stream>>>(view);
    }
  } else if (to.input.numel() + to.offset.numel() + to.mask.numel() + to.weight.numel() > 0) {
    const int64_t copied = copy_size(input);
    const Workspace<T> room(copied > 0 ? copied : 1);
    const bool eights = call.group_channels() % vector_width == 0 && call.offset_group_channels() % vector_width == 0;
    const Sampler<T> sampler{call, pixels_of(input, eights, copied > 0 ? room.data : nullptr, stream), offset, mask};
    with_tf32<T>(tf32, [&](auto rounded) { SampleBackward<T, rounded.value>(sampler, outer, to, stream).run(weight); });
  }
  if (to.bias.numel() > 0) {
    const Workspace<compute_t<T>> sums(bias_parts * call.outputs);
    const dim3 blocks(grid_of(divide_up(call.outputs, lanes)), bias_parts);
    sum_rows<T>
        <<<blocks, tile_threads, 0, stream>>>(outer.data, call.images * call.positions(), call.outputs, sums.data);
    sum_bias<T><<<grid_of(divide_up(call.outputs, tile_threads)), tile_threads, 0, stream>>>(sums.data, to.bias);
  }
}

}  // namespace
}  // namespace opsmith::ops::deform_conv2d
