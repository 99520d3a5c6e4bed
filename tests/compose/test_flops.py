"""The FLOP counter counts the products inside an operator, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from opsmith.ops.lltm import LLTMCell, lltm_cell

pytestmark = pytest.mark.compile

_BATCH, _INPUT, _STATE = 5, 2, 4


def count(function, *arguments: torch.Tensor) -> tuple[int, int]:
    """Return the operations of the forward alone and of forward and backward."""
    with FlopCounterMode(display=False) as forward:
        outputs = function(*arguments)[:2]
    with FlopCounterMode(display=False) as both:
        outputs = function(*arguments)[:2]
        torch.autograd.grad(sum(output.sum() for output in outputs), arguments)
    return forward.get_total_flops(), both.get_total_flops()


def test_a_cell_counts_as_its_body_does():
    shapes = ((_BATCH, _INPUT), (_BATCH, _STATE), (_BATCH, _STATE), (3 * _STATE, _STATE + _INPUT), (3 * _STATE,))
    arguments = [torch.randn(shape, requires_grad=True) for shape in shapes]
    forward, both = count(lltm_cell, *arguments)
    assert forward == 2 * _BATCH * (_STATE + _INPUT) * 3 * _STATE
    assert (forward, both) == count(lltm_cell.reference, *arguments)


def test_a_module_is_named_in_the_table():
    cell = LLTMCell(_INPUT, _STATE)
    with FlopCounterMode(display=False, depth=2) as counter:
        cell(torch.randn(_BATCH, _INPUT))
    assert counter.get_flop_counts()["LLTMCell"]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_counting_needs_no_data(device: str):
    cell = LLTMCell(_INPUT, _STATE, device=device)
    with FlopCounterMode(display=False) as counter:
        cell(torch.empty(_BATCH, _INPUT, device=device))
    assert counter.get_total_flops() == 2 * _BATCH * (_STATE + _INPUT) * 3 * _STATE
