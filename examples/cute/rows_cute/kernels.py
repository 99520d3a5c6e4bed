"""The kernels, and the functions that launch them. A block of the second has a warp for each of its rows."""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute

THREADS = 256
WARP = 32
ROWS = 4


@cute.kernel
def scale_kernel(x: cute.Tensor, y: cute.Tensor, factor: cutlass.Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * THREADS + thread
    if at < cute.size(x, mode=[1]):
        values = x[None, at].load().to(cutlass.Float32) * factor
        y[None, at].store(values.to(y.element_type))


@cute.jit
def scale_all(
    x: cute.Tensor, y: cute.Tensor, factor: cutlass.Float32, VALUES: cutlass.Constexpr, stream: cuda.CUstream
) -> None:
    """Give each thread some values that follow one another."""
    parts_x, parts_y = cute.zipped_divide(x, (VALUES,)), cute.zipped_divide(y, (VALUES,))
    blocks = cute.ceil_div(cute.size(parts_x, mode=[1]), THREADS)
    scale_kernel(parts_x, parts_y, factor).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)


@cute.jit
def scale_all_backward(
    grad_y: cute.Tensor, grad_x: cute.Tensor, factor: cutlass.Float32, VALUES: cutlass.Constexpr, stream: cuda.CUstream
) -> None:
    """Do the same to the gradient."""
    scale_all(grad_y, grad_x, factor, VALUES, stream)


@cute.kernel
def softmax_kernel(x: cute.Tensor, y: cute.Tensor, scale: cutlass.Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row = block * ROWS + thread // WARP
    lane = thread % WARP
    if row < x.shape[0]:
        largest = -cutlass.Float32.inf
        for column in cutlass.range(lane, x.shape[1], WARP):
            largest = cute.arch.fmax(largest, x[row, column].to(cutlass.Float32) * scale)
        largest = cute.arch.warp_reduction_max(largest)
        total = cutlass.Float32(0.0)
        for column in cutlass.range(lane, x.shape[1], WARP):
            total += cute.math.exp(x[row, column].to(cutlass.Float32) * scale - largest)
        total = cute.arch.warp_reduction_sum(total)
        for column in cutlass.range(lane, x.shape[1], WARP):
            value = cute.math.exp(x[row, column].to(cutlass.Float32) * scale - largest) / total
            y[row, column] = value.to(y.element_type)


@cute.jit
def softmax_rows(x: cute.Tensor, y: cute.Tensor, scale: cutlass.Float32, stream: cuda.CUstream) -> None:
    """Launch a warp for each row."""
    blocks = cute.ceil_div(x.shape[0], ROWS)
    softmax_kernel(x, y, scale).launch(grid=[blocks, 1, 1], block=[ROWS * WARP, 1, 1], stream=stream)


@cute.kernel
def softmax_backward_kernel(grad_y: cute.Tensor, y: cute.Tensor, grad_x: cute.Tensor, scale: cutlass.Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row = block * ROWS + thread // WARP
    lane = thread % WARP
    if row < y.shape[0]:
        product = cutlass.Float32(0.0)
        for column in cutlass.range(lane, y.shape[1], WARP):
            product += grad_y[row, column].to(cutlass.Float32) * y[row, column].to(cutlass.Float32)
        product = cute.arch.warp_reduction_sum(product)
        for column in cutlass.range(lane, y.shape[1], WARP):
            gradient = grad_y[row, column].to(cutlass.Float32) - product
            gradient *= scale * y[row, column].to(cutlass.Float32)
            grad_x[row, column] = gradient.to(grad_x.element_type)


@cute.jit
def softmax_rows_backward(
    grad_y: cute.Tensor,
    x: cute.Tensor,
    scale: cutlass.Float32,
    y: cute.Tensor,
    grad_x: cute.Tensor,
    stream: cuda.CUstream,
) -> None:
    """Launch a warp for each row; the gradient needs the result alone, and not the input."""
    blocks = cute.ceil_div(y.shape[0], ROWS)
    softmax_backward_kernel(grad_y, y, grad_x, scale).launch(
        grid=[blocks, 1, 1], block=[ROWS * WARP, 1, 1], stream=stream
    )
