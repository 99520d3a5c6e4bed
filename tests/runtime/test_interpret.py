"""TRITON_INTERPRET=1 runs Triton kernels on the CPU: the examples' are right, and planted defects are found."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from forks import python_c

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

_CALLS = """
import torch
from attention import attention
from rows import softmax

torch.manual_seed(0)

for x in (torch.randn(5, 300)[:, ::3], torch.randn(40, 7).t(), torch.randn(0, 4), torch.randn(2, 1)):
    x.requires_grad_()
    y = softmax(x, 0.5)
    torch.testing.assert_close(y, torch.softmax(x * 0.5, 1))
    g = torch.randn_like(y)
    expected = torch.autograd.grad(torch.softmax(x * 0.5, 1), x, g)
    torch.testing.assert_close(torch.autograd.grad(y, x, g), expected)

try:
    softmax(torch.randn(2, 20_000))
except ValueError as error:
    print(error)

for m, n, d in ((70, 33, 16), (33, 33, 100), (3, 100, 64)):
    for causal in (False, True):
        shapes = (1, 2, m, d), (1, 2, n, d), (1, 2, n, d)
        inputs = [torch.randn(shape).half().requires_grad_() for shape in shapes]
        exact = [each.detach().double().requires_grad_() for each in inputs]
        y, (expected, _) = attention(*inputs, causal), attention.reference(*exact, causal)
        torch.testing.assert_close(y.double(), expected, rtol=2e-3, atol=2e-3)
        g = torch.randn_like(y)
        found = torch.autograd.grad(y, inputs, g)
        for one, other in zip(found, torch.autograd.grad(expected, exact, g.double())):
            torch.testing.assert_close(one.double(), other, rtol=1e-2, atol=1e-2)
"""


@pytest.mark.compile
def test_the_examples_are_right_on_the_cpu(tmp_path: Path) -> None:
    done = python_c(_CALLS, cwd=EXAMPLES, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr
    assert "softmax(): no configuration of its kernel is for this call, N = 20000; there are" in done.stdout


_DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor


@opsmith.op(cuda=opsmith.triton("kernel.py:doubled", grid="cdiv(n, BLOCK)", BLOCK=64), outputs="y")
def doubled(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    return 2 * x
"""
_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)
"""
_CHECK = """
import sys
import opsmith
from planted import doubled

report = opsmith.check(doubled, devices="cpu", properties=[sys.argv[1]], dtypes=["float32"], seconds=20)
print(report.failed)
"""


@pytest.mark.compile
@pytest.mark.slow("checks an operator for each planted defect")
@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("", "", None),
        ("2 * tl.load", "2.001 * tl.load", "value"),
        ("tl.program_id(0) * BLOCK", "tl.program_id(0) * 63", "sizes"),
        ("tl.load(x + at, at < n), at < n", "tl.load(x + at, at < n), at < n - 1", "outputs written"),
        ("tl.load(x + at, at < n), at < n", "tl.load(x + at, at < n), at <= n", "writes outside"),
        ("tl.load(x + at, at < n)", "tl.load(x + at)", "reads outside"),
        ("2 * tl.load(x + at, at < n)", "tl.maximum(2 * tl.load(x + at, at < n), -3e38)", "special values"),
    ],
)
def test_planted_defects_are_found(tmp_path: Path, right: str, wrong: str, found: str | None) -> None:
    (tmp_path / "planted.py").write_text(_DEFINITION)
    (tmp_path / "kernel.py").write_text(_KERNEL.replace(right, wrong) if right else _KERNEL)
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = python_c(_CHECK, [found or "value"], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (f"('{found}',)" if found else "()")
