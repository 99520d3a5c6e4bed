"""Holds lltm_cell's GPU kernels to the body in float64: sizes, layouts, element types, large gates, and what must repeat."""

from __future__ import annotations

import pytest
import torch
from graphs import capture
from layouts import laid_out
from lltm_calls import cell_arguments, gradients
from torch import Tensor

from opsmith.ops.lltm import lltm_cell, lltm_cell_backward

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

# Batch, input and state. The first seven go through the operator's own products, most of them no multiple of a vector
# or a tile; the others through PyTorch's, in the backward or in both, with the bias's sum in one part or in several.
SIZES = [
    (1, 4, 8),
    (7, 3, 5),
    (8, 1, 1),
    (16, 32, 128),
    (33, 20, 51),
    (70, 129, 65),
    (1, 0, 3),
    (65, 513, 515),
    (256, 512, 512),
    (5000, 96, 100),
    (3, 5000, 2),
]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 6e-3, torch.bfloat16: 4e-2}
dtypes = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
sizes = pytest.mark.parametrize("size", SIZES, ids=str)
some_sizes = pytest.mark.parametrize("size", [(17, 12, 20), (300, 384, 400)], ids=["own products", "PyTorch's"])


def make(batch: int, inputs: int, state: int, dtype: torch.dtype) -> list[Tensor]:
    return cell_arguments(batch, inputs, state, dtype, "cuda")


def assert_near(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...], dtype: torch.dtype) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        # A sum's rounding goes with the largest of its terms, and so with the largest element.
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.double() / scale, theirs / scale, rtol=0, atol=TOLERANCE[dtype])


def check_against_reference(arguments: list[Tensor]) -> None:
    """Compare values, what is saved, and gradients with those of the body in float64 for the same arguments."""
    dtype = arguments[0].dtype
    wide = [argument.double() for argument in arguments]
    with torch.no_grad():
        assert_near(lltm_cell.torch_op(*arguments), lltm_cell.reference(*wide), dtype)
    outer = [torch.randn_like(arguments[2]) for _ in "hc"]
    wanted = gradients(lambda *a: lltm_cell.reference(*a)[:2], wide, [grad.double() for grad in outer])
    assert_near(gradients(lltm_cell, arguments, outer), wanted, dtype)


@dtypes
@sizes
def test_agrees_with_the_reference(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    check_against_reference(make(*size, dtype))


@dtypes
@some_sizes
@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded", "offset"])
def test_takes_any_strides(layout: str, size: tuple[int, int, int], dtype: torch.dtype) -> None:
    for place in range(5):
        arguments = make(*size, dtype)
        arguments[place] = laid_out(arguments[place], layout)
        check_against_reference(arguments)


@some_sizes
def test_takes_gradients_of_any_strides(size: tuple[int, int, int]) -> None:
    arguments = make(*size, torch.float32)
    dense = [torch.randn_like(arguments[2]) for _ in "hc"]
    wanted = gradients(lltm_cell, arguments, dense)
    transposed = [grad.t().contiguous().t() for grad in dense]
    for ours, theirs in zip(gradients(lltm_cell, arguments, transposed), wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", [(0, 3, 5), (0, 512, 512), (4, 3, 0)], ids=str)
def test_empty_tensors_have_gradients_of_zero(size: tuple[int, int, int]) -> None:
    arguments = make(*size, torch.float32)
    hidden, cell = lltm_cell(*arguments)
    assert hidden.shape == cell.shape == arguments[2].shape
    found = gradients(lltm_cell, arguments, [torch.zeros_like(hidden), torch.zeros_like(cell)])
    for grad, argument in zip(found, arguments, strict=True):
        assert torch.equal(grad, torch.zeros_like(argument))


@pytest.mark.parametrize("gate", [-3e38, -1000.0, -88.0, 0.0, 88.0, 1000.0, 3e38])
@some_sizes
def test_any_finite_gate_has_a_finite_gradient(size: tuple[int, int, int], gate: float) -> None:
    arguments = make(*size, torch.float32)
    arguments[3].zero_()
    arguments[4].fill_(gate)
    outer = [torch.ones_like(arguments[2])] * 2
    found = gradients(lltm_cell, arguments, outer)
    wanted = gradients(
        lambda *a: lltm_cell.reference(*a)[:2], [a.double() for a in arguments], [o.double() for o in outer]
    )
    assert all(torch.isfinite(grad).all() for grad in found)
    assert_near(found, wanted, torch.float32)


@some_sizes
def test_nan_stays_in_its_row(size: tuple[int, int, int]) -> None:
    arguments = make(*size, torch.float32)
    arguments[0][2, 1] = float("nan")
    hidden, cell = lltm_cell(*arguments)
    assert hidden[2].isnan().all()
    assert cell[2].isnan().all()
    assert not hidden[3:].isnan().any()
    assert not hidden[:2].isnan().any()


@dtypes
@some_sizes
def test_runs_are_equal_bit_for_bit(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    arguments = make(*size, dtype)
    outer = [torch.randn_like(arguments[2]) for _ in "hc"]
    with torch.no_grad():
        runs = []
        for _ in range(4):
            new_hidden, new_cell, gates = lltm_cell.torch_op(*arguments)
            runs.append((new_hidden, new_cell, gates, *lltm_cell_backward(*outer, *arguments, gates, new_cell)))
    for run in runs[1:]:
        assert all(torch.equal(ours, first) for ours, first in zip(run, runs[0], strict=True))


@some_sizes
def test_a_step_with_its_gradients_is_captured(size: tuple[int, int, int]) -> None:
    static = make(*size, torch.float32)
    outer = [torch.randn_like(static[2]) for _ in "hc"]

    def step() -> tuple[Tensor, ...]:
        new_hidden, new_cell, gates = lltm_cell.torch_op(*static)
        return new_hidden, new_cell, *lltm_cell_backward(*outer, *static, gates, new_cell)

    with torch.no_grad():
        graph, captured = capture(step)
        for argument in static:
            argument.copy_(torch.randn_like(argument) * 0.1)
        graph.replay()
        torch.cuda.synchronize()
        for ours, theirs in zip(captured, step(), strict=True):
            torch.testing.assert_close(ours, theirs)


@some_sizes
def test_runs_on_the_current_stream(size: tuple[int, int, int]) -> None:
    arguments = make(*size, torch.float32)
    outer = [torch.randn_like(arguments[2]) for _ in "hc"]
    wanted = gradients(lltm_cell, arguments, outer)
    late = [torch.zeros_like(argument) for argument in arguments]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        # The stream is busy for some milliseconds before the inputs are there: a kernel on another stream reads zeros.
        torch.cuda._sleep(20_000_000)
        for target, source in zip(late, arguments, strict=True):
            target.copy_(source, non_blocking=True)
        found = gradients(lltm_cell, late, outer)
        torch.cuda.current_stream().synchronize()
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", [(3, 4, 5)], ids=str)
def test_gradients_of_first_and_second_order(size: tuple[int, int, int]) -> None:
    arguments = [argument.requires_grad_() for argument in make(*size, torch.float64)]
    assert torch.autograd.gradcheck(lltm_cell, arguments)
    assert torch.autograd.gradgradcheck(lltm_cell, arguments)
