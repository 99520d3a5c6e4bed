"""Operators of the library with kernels in Triton compute what the library's own do, here by Triton's interpreter."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from forks import python_c

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

_CALLS = """
import torch
import triton_twins as twins
from opsmith.ops.bias_act.operator import bias_activation
from opsmith.ops.lltm.cell import lltm_gates
from opsmith.ops.sigmoid_focal_loss.operator import focal_loss

torch.manual_seed(0)


def compare(operator, twin, tensors, *others):
    ours, theirs = ([each.clone().requires_grad_() for each in tensors] for _ in range(2))
    one, two = operator.reference(*ours, *others), twin(*theirs, *others)
    one, two = (each if isinstance(each, tuple) else (each,) for each in (one, two))
    weights = [torch.randn_like(each) for each in one]
    pairs = [*zip(one, two), *zip(torch.autograd.grad(one, ours, weights), torch.autograd.grad(two, theirs, weights))]
    for first, second in pairs:
        torch.testing.assert_close(first, second, rtol=1e-4, atol=2e-5)


compare(lltm_gates, twins.gates_triton, (torch.randn(3, 96), torch.randn(3, 32)))
compare(focal_loss, twins.focal_triton, (torch.randn(1500), torch.rand(1500)))
# Planes of one element, as those of a tensor in channels_last order, of some, and of more than a program has.
for shape in ((300, 37), (9, 6, 5, 8), (2, 3, 40, 40), (1, 1), (0, 4)):
    compare(bias_activation, twins.bias_triton, (torch.randn(shape), torch.randn(shape[1])), "lrelu", 0.2, 1.5, 0.8)
print("compared")
"""


@pytest.mark.compile
def test_the_twins_are_right_on_the_cpu() -> None:
    done = python_c(_CALLS, cwd=BENCHMARKS, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr
    assert "compared" in done.stdout
