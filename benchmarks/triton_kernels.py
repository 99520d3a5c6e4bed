"""The Triton kernels of triton_twins.py. They import nothing but Triton, so that building them does not import torch."""

import triton.language as tl

import triton


@triton.jit
def expm1(x):
    """exp(x) - 1; near 0 by its series, where the difference would cancel."""
    small = x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x / 5040))))))
    return tl.where(tl.abs(x) < 0.35, small, tl.exp(x) - 1)


@triton.jit
def tanh(x):
    shrunk = expm1(-2 * tl.abs(x))  # in (-1, 0]: it cannot overflow
    size = -shrunk / (2 + shrunk)
    return tl.where(x < 0, -size, size)


@triton.jit
def log1p(x):
    """log(1 + x) for x >= 0. What is lost of x in the sum is lost in the quotient's divisor, too."""
    total = 1 + x
    return tl.where(total == 1, x, tl.log(total) * (x / tl.where(total == 1, 1.0, total - 1)))


# ---- lltm_gates ------------------------------------------------------------------------------------------------------


@triton.jit
def gates(gates, cell, hidden, new_cell, S, gates_stride_0, cell_stride_0, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < S
    of_row = gates + row * gates_stride_0 + columns
    i = tl.load(of_row, inside).to(tl.float32)
    o = tl.load(of_row + S, inside).to(tl.float32)
    c = tl.load(of_row + 2 * S, inside).to(tl.float32)
    before = tl.load(cell + row * cell_stride_0 + columns, inside).to(tl.float32)
    elu = tl.where(c > 0, c, expm1(tl.where(c > 0, 0.0, c)))
    after = before + elu * tl.sigmoid(i)
    tl.store(hidden + row * S + columns, (tanh(after) * tl.sigmoid(o)).to(hidden.dtype.element_ty), inside)
    tl.store(new_cell + row * S + columns, after.to(new_cell.dtype.element_ty), inside)


@triton.jit
def gates_backward(grad_hidden, grad_new_cell, gates, new_cell, grad_gates, grad_cell, S, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < S
    at, at_gates = row * S + columns, row * 3 * S + columns
    i = tl.load(gates + at_gates, inside).to(tl.float32)
    o = tl.load(gates + at_gates + S, inside).to(tl.float32)
    c = tl.load(gates + at_gates + 2 * S, inside).to(tl.float32)
    by_hidden = tl.load(grad_hidden + at, inside).to(tl.float32)
    input_gate, output_gate = tl.sigmoid(i), tl.sigmoid(o)
    squashed = tanh(tl.load(new_cell + at, inside).to(tl.float32))
    by_cell = tl.load(grad_new_cell + at, inside).to(tl.float32)
    by_cell += by_hidden * output_gate * (1 - squashed * squashed)
    negative = tl.where(c > 0, 0.0, c)
    elu, slope = tl.where(c > 0, c, expm1(negative)), tl.where(c > 0, 1.0, tl.exp(negative))
    dtype = grad_gates.dtype.element_ty
    tl.store(grad_gates + at_gates, (by_cell * elu * input_gate * (1 - input_gate)).to(dtype), inside)
    tl.store(grad_gates + at_gates + S, (by_hidden * squashed * output_gate * (1 - output_gate)).to(dtype), inside)
    tl.store(grad_gates + at_gates + 2 * S, (by_cell * input_gate * slope).to(dtype), inside)
    tl.store(grad_cell + at, by_cell.to(dtype), inside)


# ---- focal_loss ------------------------------------------------------------------------------------------------------


@triton.jit
def powered(x, power):
    """x to a power, also of numbers below 0, which targets outside [0, 1] lead to."""
    size = tl.exp(power * tl.log(tl.abs(x)))
    half = power / 2
    of_negative = tl.where(tl.floor(half) == half, size, tl.where(tl.floor(power) == power, -size, float("nan")))
    general = tl.where(x < 0, of_negative, size)
    return tl.where(power == 2.0, x * x, tl.where(power == 0.0, 1.0, general))


@triton.jit
def focal_parts(x, target):
    """Return the probabilities of both classes, 1 - p_t, and the cross-entropy."""
    positive, negative = tl.sigmoid(x), tl.sigmoid(-x)
    wrong = positive * (1 - target) + negative * target
    rest = log1p(tl.exp(-tl.abs(x)))
    cross_entropy = (tl.maximum(x, 0.0) + rest) * (1 - target) + (tl.maximum(-x, 0.0) + rest) * target
    return positive, negative, wrong, cross_entropy


@triton.jit
def focal(inputs, targets, alpha, gamma, loss, shape, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < shape
    x = tl.load(inputs + at, inside).to(tl.float32)
    target = tl.load(targets + at, inside).to(tl.float32)
    _, _, wrong, cross_entropy = focal_parts(x, target)
    weight = tl.where(alpha >= 0, alpha * target + (1 - alpha) * (1 - target), 1.0)
    tl.store(loss + at, (weight * powered(wrong, gamma) * cross_entropy).to(loss.dtype.element_ty), inside)


@triton.jit
def focal_backward(
    grad_loss, inputs, targets, alpha, gamma, needs_grad_targets, grad_inputs, grad_targets, shape, BLOCK: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < shape
    x = tl.load(inputs + at, inside).to(tl.float32)
    target = tl.load(targets + at, inside).to(tl.float32)
    given = tl.load(grad_loss + at, inside).to(tl.float32)
    p, q, wrong, cross_entropy = focal_parts(x, target)
    weight = tl.where(alpha >= 0, alpha * target + (1 - alpha) * (1 - target), 1.0)
    power = powered(wrong, gamma)
    # Where 1 - p_t is 0, what this is multiplied with is 0, too.
    rise = gamma * power / tl.where(wrong == 0, 1.1754944e-38, wrong)
    by_input = power * (p * (1 - target) - q * target) + rise * p * q * (1 - 2 * target) * cross_entropy
    dtype = grad_inputs.dtype.element_ty
    tl.store(grad_inputs + at, (given * weight * by_input).to(dtype), inside)
    if needs_grad_targets:
        by_target = weight * (rise * (q - p) * cross_entropy - power * x)
        by_target += tl.where(alpha >= 0, (2 * alpha - 1) * power * cross_entropy, 0.0)
        tl.store(grad_targets + at, (given * by_target).to(dtype), inside)


# ---- bias_act --------------------------------------------------------------------------------------------------------


@triton.jit
def activation(u, alpha, act: tl.constexpr):
    """Return an activation's value and slope."""
    if act == "lrelu":
        return tl.where(u > 0, u, u * alpha), tl.where(u > 0, 1.0, alpha)
    if act == "swish":
        s = tl.sigmoid(u)
        return u * s, s * (1 + u * (1 - s))
    return u, tl.full(u.shape, 1.0, tl.float32)


@triton.jit
def bias(x, b, act: tl.constexpr, alpha, gain, clamp, y, N, C, inner, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (plane < N * C) & (columns < inner)
    u = tl.load(x + plane * inner + columns, inside).to(tl.float32)
    if b is not None:
        u += tl.load(b + plane % C).to(tl.float32)
    value, _ = activation(u, alpha, act)
    value *= gain
    if clamp >= 0:
        value = tl.where(value > clamp, clamp, tl.where(value < -clamp, -clamp, value))
    tl.store(y + plane * inner + columns, value.to(y.dtype.element_ty), inside)


@triton.jit
def bias_backward(
    grad_y, x, b, act: tl.constexpr, alpha, gain, clamp, grad_x, grad_b, N, C, inner,
    ROWS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program has some channels, and sums their bias's gradient without another kernel.

    It goes through ROWS samples at a time, and BLOCK of their elements: where a channel has one element a sample, channels
    lie next to each other, and a program that had one of them would read a cache line for each number.
    """
    rows, block = tl.arange(0, ROWS)[:, None, None], tl.arange(0, BLOCK)[None, None, :]
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    is_one = channel < C
    offset = tl.zeros([CHANNELS], tl.float32)
    if b is not None:
        offset = tl.load(b + channel, is_one, other=0.0).to(tl.float32)
    total = tl.zeros([ROWS, CHANNELS, BLOCK], tl.float32)
    for first in range(0, N, ROWS):
        sample = first + rows
        plane = (sample.to(tl.int64) * C + channel[None, :, None]) * inner
        for start in range(0, inner, BLOCK):
            columns = start + block
            inside = (sample < N) & is_one[None, :, None] & (columns < inner)
            u = tl.load(x + plane + columns, inside).to(tl.float32) + offset[None, :, None]
            value, slope = activation(u, alpha, act)
            found = tl.load(grad_y + plane + columns, inside, other=0.0).to(tl.float32) * slope * gain
            if clamp >= 0:
                found = tl.where(tl.abs(value * gain) >= clamp, 0.0, found)
            tl.store(grad_x + plane + columns, found.to(grad_x.dtype.element_ty), inside)
            total += tl.where(inside, found, 0.0)
    tl.store(grad_b + channel, tl.sum(tl.sum(total, 2), 0).to(grad_b.dtype.element_ty), is_one)
