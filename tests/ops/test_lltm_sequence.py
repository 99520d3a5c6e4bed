"""Holds lltm_sequence on the CPU to a loop over the reference of lltm_cell: values, gradients, layouts, threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from layouts import laid_out
from lltm_calls import gradients, loop, sequence_arguments
from torch import Tensor

from opsmith.ops.lltm import lltm_sequence, lltm_sequence_backward

pytestmark = pytest.mark.compile

Size = tuple[int, int, int, int]

# Steps, batch, input and state. Some leave tiles, panels and windows partly filled; the last has so few rows and so many
# units that several threads share every step.
SIZES: list[Size] = [
    (0, 3, 4, 5),
    (1, 1, 1, 1),
    (3, 0, 4, 5),
    (4, 3, 0, 5),
    (7, 16, 32, 128),
    (9, 7, 3, 33),
    (5, 50, 20, 17),
    (4, 5, 40, 270),
]
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 6e-2, "atol": 6e-2},
}


@pytest.fixture(autouse=True)
def keep_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, threads))
    yield
    torch.set_num_threads(threads)


def check_against_loop(arguments: list[Tensor]) -> None:
    """Compare values and gradients with those of the loop in float64, for the same arguments."""
    wide = [argument.double() for argument in arguments]
    dtype = arguments[0].dtype
    for ours, theirs in zip(lltm_sequence(*arguments), loop(*wide), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, **TOLERANCE[dtype])
    steps, (batch, state) = len(arguments[0]), arguments[1].shape
    outer = [torch.randn(steps, batch, state, dtype=dtype), torch.randn(batch, state, dtype=dtype)]
    found = gradients(lltm_sequence, arguments, outer)
    wanted = gradients(loop, wide, [grad.double() for grad in outer], unused=True)
    for ours, theirs in zip(found, wanted, strict=True):
        # A gradient of the weight sums over steps and batch, so its rounding goes with the largest element.
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.double() / scale, theirs / scale, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_a_loop_of_cells(size: Size, dtype: torch.dtype) -> None:
    check_against_loop(sequence_arguments(*size, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded"])
def test_takes_any_strides(layout: str, place: int, dtype: torch.dtype) -> None:
    arguments = sequence_arguments(5, 9, 6, 10, dtype)
    argument = arguments[place]
    if layout == "transposed" and argument.dim() > 1:
        arguments[place] = argument.transpose(0, 1).contiguous().transpose(0, 1)
    else:
        arguments[place] = laid_out(argument, layout)
    check_against_loop(arguments)


@pytest.mark.parametrize("size", [(0, 2, 3, 4), (3, 2, 3, 4)], ids=str)
def test_gradients_of_first_and_second_order(size: Size) -> None:
    arguments = [argument.requires_grad_() for argument in sequence_arguments(*size)]
    assert torch.autograd.gradcheck(lltm_sequence, arguments)
    assert torch.autograd.gradgradcheck(lltm_sequence, arguments)


@pytest.mark.parametrize("gate", [-1000.0, -88.0, 0.0, 88.0, 1000.0])
def test_any_finite_gate_has_a_finite_gradient(gate: float) -> None:
    arguments = sequence_arguments(3, 2, 4, 8, torch.float32)
    arguments[3].zero_()
    arguments[4].fill_(gate)
    outer = [torch.ones(3, 2, 8), torch.ones(2, 8)]
    found = gradients(lltm_sequence, arguments, outer)
    wanted = gradients(loop, [argument.double() for argument in arguments], [grad.double() for grad in outer])
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-5, atol=1e-5)


def test_a_nan_stays_in_its_row() -> None:
    arguments = sequence_arguments(4, 3, 5, 6, torch.float32)
    arguments[0][1, 1, 2] = float("nan")
    hiddens, last_cell = lltm_sequence(*arguments)
    assert hiddens[1:, 1].isnan().all()
    assert last_cell[1].isnan().all()
    assert hiddens[:, ::2].isfinite().all()
    assert hiddens[0].isfinite().all()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [(6, 40, 20, 50), (4, 5, 40, 270)], ids=str)
def test_results_do_not_depend_on_the_number_of_threads(size: Size, dtype: torch.dtype) -> None:
    arguments = sequence_arguments(*size, dtype)
    steps, batch, _, state = size
    outer = [torch.randn(steps, batch, state).to(dtype), torch.randn(batch, state).to(dtype)]
    runs = []
    with torch.no_grad():
        saved = lltm_sequence.torch_op(*arguments)
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            again = lltm_sequence.torch_op(*arguments)
            runs.append((*again, *lltm_sequence_backward(*outer, *arguments, saved[0], saved[2], saved[3])))
    for run in runs[1:]:
        assert all(torch.equal(ours, first) for ours, first in zip(run, runs[0], strict=True))


def test_compiles_into_one_graph_for_any_number_of_steps() -> None:
    def run(*arguments: Tensor) -> tuple[Tensor, ...]:
        return lltm_sequence(*arguments)

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for steps in (3, 5, 8):
        arguments = sequence_arguments(steps, 2, 3, 5)
        outer = [torch.ones(steps, 2, 5, dtype=torch.float64), torch.ones(2, 5, dtype=torch.float64)]
        for ours, theirs in zip(
            gradients(compiled, arguments, outer), gradients(lltm_sequence, arguments, outer), strict=True
        ):
            torch.testing.assert_close(ours, theirs)
