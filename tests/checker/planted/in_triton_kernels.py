"""The Triton kernels of in_triton.py. Each has its defect where PLANTED is true."""

import triton.language as tl

import triton


@triton.jit
def rounded_factor(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = 2.001 if PLANTED else 2.0
    tl.store(y + at, factor * tl.load(x + at, at < n), at < n)


@triton.jit
def short_blocks(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    step = BLOCK - 1 if PLANTED else BLOCK
    at = tl.program_id(0) * step + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)


@triton.jit
def last_element(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    end = n - 1 if PLANTED else n
    tl.store(y + at, 3 * tl.load(x + at, at < n), at < end)


@triton.jit
def stores_past(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    end = n + 1 if PLANTED else n
    tl.store(y + at, 1 - tl.load(x + at, at < n), at < end)


@triton.jit
def loads_unmasked(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    if PLANTED:
        inside = inside | (at >= 0)
    values = tl.load(x + at, inside)
    tl.store(y + at, values + 1, at < n)


@triton.jit
def lost_infinity(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = 0.5 * tl.load(x + at, at < n)
    if PLANTED:
        values = tl.maximum(values, -3e38)
    tl.store(y + at, values, at < n)


@triton.jit
def row_tail(x, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Sums a row, with a mask of the tensor's end alone: the next row is added."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        if PLANTED:
            inside = row * N + columns < tl.num_programs(0) * N
        total += tl.load(x + row * N + columns, inside, other=0.0)
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def masked_maximum(x, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Takes a row's maximum; 0 is not what has no effect on it where all elements are below 0."""
    row = tl.program_id(0).to(tl.int64)
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    nans = tl.zeros([BLOCK], tl.int32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        outside = 0.0 if PLANTED else -float("inf")
        values = tl.load(x + row * N + columns, columns < N, other=outside)
        most = tl.maximum(most, values)
        nans += (values != values).to(tl.int32)
    found = tl.max(most, 0)
    tl.store(y + row, tl.where(tl.sum(nans, 0) > 0, float("nan"), found))


@triton.jit
def last_block(x, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Sums a row in blocks, of which one that is exactly full at the row's end is left out."""
    row = tl.program_id(0).to(tl.int64)
    end = N - 1 if PLANTED else N
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(0, end // BLOCK):
        total += tl.load(x + row * N + block * BLOCK + tl.arange(0, BLOCK))
    rest = N // BLOCK * BLOCK + tl.arange(0, BLOCK)
    total += tl.load(x + row * N + rest, rest < N, other=0.0)
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def transposed(x, y, M, N, x_stride_0, x_stride_1, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Writes x.T; the stride of rows is the number of columns only where x is contiguous."""
    column = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pitch = N * x_stride_1 if PLANTED else x_stride_0
    values = tl.load(x + rows.to(tl.int64) * pitch + column * x_stride_1, rows < M)
    tl.store(y + column * M + rows, values, rows < M)


@triton.jit
def half_sums(x, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """The root of a row's mean square: in half precision the squares overflow."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float16 if PLANTED else tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * N + columns, columns < N, other=0.0)
        values = values.to(total.dtype)
        total += values * values
    mean = tl.sum(total.to(tl.float32), 0) / N
    tl.store(y + row, tl.sqrt(mean).to(tl.float16))


@triton.jit
def forgotten_bias(x, bias, factor, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Without a bias the factor is forgotten."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + row * N + columns, inside)
    if bias is not None:
        values = values * factor + tl.load(bias + columns, inside)
    else:
        if not PLANTED:
            values = values * factor
    tl.store(y + row * N + columns, values, inside)


@triton.jit
def empty_rows(x, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """The mean of a row of no elements is NaN."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * N + columns, columns < N, other=0.0)
    count = tl.maximum(N, 1) if PLANTED else N
    tl.store(y + row, tl.sum(total, 0) / count.to(tl.float32))


@triton.jit
def scales_input(x, y, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = 0.5 * tl.load(x + at, at < n)
    if PLANTED:
        tl.store(x + at, values, at < n)
    tl.store(y + at, values + 1, at < n)


@triton.jit
def scaled_rows(x, weight, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * N + columns, columns < N) * tl.load(weight + row)
    tl.store(y + row * N + columns, values, columns < N)


@triton.jit
def scaled_rows_backward(grad_y, x, weight, grad_x, grad_weight, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """The gradient of x is right; that of the weight is the last block's part of it."""
    row = tl.program_id(0).to(tl.int64)
    factor = tl.load(weight + row)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        given = tl.load(grad_y + row * N + columns, columns < N, other=0.0)
        tl.store(grad_x + row * N + columns, given * factor, columns < N)
        part = given * tl.load(x + row * N + columns, columns < N, other=0.0)
        total = part if PLANTED else total + part
    tl.store(grad_weight + row, tl.sum(total, 0))


@triton.jit
def last_part_wins(x, y, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Several blocks store their part of a row's sum at one address; without the defect one block has the whole row."""
    row = tl.program_id(0).to(tl.int64)
    begin, end, step = 0, N, 1
    if PLANTED:
        begin, step = tl.program_id(1), tl.num_programs(1)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(begin, tl.cdiv(end, BLOCK), step):
        columns = block * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + row * N + columns, columns < N, other=0.0)
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def narrow_offset(x, y, N, x_stride_0, x_stride_1, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Doubles a matrix; a row's offset has 32 bits."""
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    of_row = row * x_stride_0.to(tl.int32) if PLANTED else row.to(tl.int64) * x_stride_0
    values = tl.load(x + of_row + columns.to(tl.int64) * x_stride_1, columns < N)
    tl.store(y + row.to(tl.int64) * N + columns, 2 * values, columns < N)


@triton.jit
def counted(x, total, n, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Adds to a number how many elements are above 0: blocks that load, add and store lose each other's."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = tl.sum((tl.load(x + at, at < n, other=0.0) > 0).to(tl.int32), 0)
    if PLANTED:
        tl.store(total, tl.load(total) + count)
    else:
        tl.atomic_add(total, count)


@triton.jit
def many_rows(x, y, M, N, BLOCK: tl.constexpr, PLANTED: tl.constexpr):
    """Doubles a matrix; the grid has rows along y, of which a GPU takes 65,535."""
    row = tl.program_id(1) if PLANTED else tl.program_id(0)
    block = tl.program_id(0) if PLANTED else tl.program_id(1)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    at = row.to(tl.int64) * N + columns
    tl.store(y + at, 2 * tl.load(x + at, columns < N), columns < N)
