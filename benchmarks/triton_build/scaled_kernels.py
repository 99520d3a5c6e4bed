import triton.language as tl

import triton


@triton.jit
def scale_rows(x, weight, factor, y, N, x_stride_0, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + row * x_stride_0 + columns, inside).to(tl.float32)
    values = values * tl.load(weight + row).to(tl.float32) * factor
    tl.store(y + row * N + columns, values.to(y.dtype.element_ty), inside)
