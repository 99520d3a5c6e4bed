"""torch.jit.script compiles a function that calls operators where it is marked for that, alone and within a module."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import opsmith
from opsmith.ops.add2 import add2
from opsmith.ops.sigmoid import sigmoid

pytestmark = pytest.mark.compile


@opsmith.scriptable
def gate(x: Tensor, y: Tensor, factor: float = 2.0) -> Tensor:
    """Two operators and a branch."""
    total: Tensor = add2(x, y)
    if total.dim() != 1:
        raise ValueError(f"one dimension is expected, got {total.dim()}")
    return factor * sigmoid(total)


class Gate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return gate(x, x)


def test_the_function_itself_stays_what_it_was():
    torch.testing.assert_close(gate(torch.ones(3), torch.ones(3)), 2 * torch.sigmoid(torch.full((3,), 2.0)))


def test_a_function_with_its_defaults():
    scripted = torch.jit.script(gate)
    x, y = torch.randn(5), torch.randn(5)
    assert torch.equal(scripted(x, y), gate(x, y))
    assert torch.equal(scripted(x, y, factor=3.0), gate(x, y, 3.0))


def test_within_a_module_that_is_saved(tmp_path: Path):
    torch.jit.script(Gate()).save(str(tmp_path / "gate.pt"))
    x = torch.randn(4, requires_grad=True)
    torch.jit.load(str(tmp_path / "gate.pt"))(x).sum().backward()
    expected = x.detach().clone().requires_grad_()
    gate(expected, expected).sum().backward()
    assert torch.equal(x.grad, expected.grad)
