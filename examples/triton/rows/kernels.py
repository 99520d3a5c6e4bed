import triton.language as tl

import triton


@triton.jit
def softmax_rows(x, scale, y, N, x_stride_0, y_stride_0, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + row * x_stride_0 + columns, inside, other=-float("inf")).to(tl.float32) * scale
    values = tl.where(inside, values, -float("inf"))  # a scale of 0 has made NaN of what is outside
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * y_stride_0 + columns, (powers / tl.sum(powers, 0)).to(y.dtype.element_ty), inside)


@triton.jit
def softmax_rows_backward(grad_y, x, scale, y, grad_x, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    given = tl.load(grad_y + row * N + columns, inside, other=0.0).to(tl.float32)
    found = tl.load(y + row * N + columns, inside, other=0.0).to(tl.float32)
    gradient = scale * found * (given - tl.sum(given * found, 0))
    tl.store(grad_x + row * N + columns, gradient.to(grad_x.dtype.element_ty), inside)
