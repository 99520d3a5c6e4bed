"""The kernels of examples/triton compute what their definitions say: on the CPU, through Triton's interpreter."""

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
