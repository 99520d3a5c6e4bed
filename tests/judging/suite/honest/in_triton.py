"""Honest candidates in Triton."""

from __future__ import annotations

from suite.row import TRITON, Row, honest

__all__ = ["ROWS"]

_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


def _triton(name: str, task: str, text: str) -> Row:
    return honest(name, task, _HEAD + text.strip("\n"), TRITON)


ROWS = (
    _triton(
        "relu in Triton",
        "relu.py",
        """
@triton.jit
def relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value < 0, 0.0, value), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        relu[(triton.cdiv(max(x.numel(), 1), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
""",
    ),
    _triton(
        "axpy in Triton with autotuning",
        "axpy.py",
        """
@triton.autotune([triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 2048})], key=["n"])
@triton.jit
def axpy(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = 2.5 * tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(z + at, value, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        axpy[lambda meta: (triton.cdiv(max(x.numel(), 1), meta["BLOCK"]),)](x, y, z, x.numel())
        return z
""",
    ),
    _triton(
        "softmax in Triton",
        "softmax.py",
        """
@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(value - tl.max(value, 0))
    tl.store(y + row + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        if x.numel() > 0:
            softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
""",
    ),
    _triton(
        "row sums in Triton",
        "row_sum.py",
        """
@triton.jit
def row_sum(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + at, mask=at < columns, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(total, 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = x.new_empty(x.shape[0])
        if len(x):
            row_sum[(x.shape[0],)](x, y, x.shape[1], BLOCK=512)
        return y
""",
    ),
    _triton(
        "rms norm in Triton",
        "rmsnorm.py",
        """
@triton.jit
def rmsnorm(x, weight, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row + at, mask=at < columns, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(value * value, 0) / columns + eps)
    tl.store(y + row + at, value * scale * tl.load(weight + at, mask=at < columns), mask=at < columns)


class ModelNew(torch.nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.2 * torch.randn(features))
        self.eps = eps

    def forward(self, x):
        x, weight = x.contiguous(), self.weight.contiguous()
        y = torch.empty_like(x)
        if x.numel() > 0:
            rmsnorm[(x.shape[0],)](x, weight, y, x.shape[1], self.eps, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
""",
    ),
    _triton(
        "gelu in Triton",
        "bias_gelu.py",
        """
@triton.jit
def gelu(x, bias, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(x + row + at, mask=at < columns) + tl.load(bias + at, mask=at < columns)
    tl.store(y + row + at, 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)), mask=at < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x, bias):
        x, bias = x.contiguous(), bias.contiguous()
        y = torch.empty_like(x)
        if x.numel() > 0:
            gelu[(x.shape[0], triton.cdiv(x.shape[1], 1024))](x, bias, y, x.shape[1], BLOCK=1024)
        return y
""",
    ),
    _triton(
        "product in Triton",
        "matmul.py",
        """
@triton.jit
def matmul(a, b, c, m, k, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        i = start + tl.arange(0, BLOCK)
        left = tl.load(a + row[:, None] * k + i[None], mask=(row[:, None] < m) & (i[None] < k), other=0.0)
        right = tl.load(b + i[:, None] * n + column[None], mask=(i[:, None] < k) & (column[None] < n), other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(c + row[:, None] * n + column[None], total, mask=(row[:, None] < m) & (column[None] < n))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        m, n = a.shape[0], b.shape[1]
        c = a.new_empty(m, n)
        if c.numel() > 0:
            matmul[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, c, m, a.shape[1], n, BLOCK=32)
        return c
""",
    ),
    _triton(
        "decay in Triton",
        "decay.py",
        """
@triton.jit
def decay(x, rate, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) * tl.exp(-tl.load(rate + at, mask=at < n))
    tl.store(y + at, value, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, rate):
        x, rate = x.contiguous(), rate.contiguous()
        y = torch.empty_like(x)
        decay[(triton.cdiv(max(x.numel(), 1), 1024),)](x, rate, y, x.numel(), BLOCK=1024)
        return y
""",
    ),
)
