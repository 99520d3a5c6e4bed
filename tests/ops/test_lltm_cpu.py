"""Holds lltm_cell on the CPU to its reference: values, gradients, layouts, threads, for both ways it multiplies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from layouts import laid_out
from lltm_calls import cell_arguments, gradients
from torch import Tensor

from opsmith.ops.lltm import lltm_cell, lltm_cell_backward

pytestmark = pytest.mark.compile

# Batch, input and state. Some are multiples of no vector and no tile, some leave panels partly filled. Up to 7 rows are
# multiplied row by row (2 in bfloat16, which from there on takes PyTorch's products if they are large), more in panels.
SIZES = [
    (1, 4, 8),
    (1, 70, 131),
    (1, 256, 400),
    (2, 33, 64),
    (3, 0, 5),
    (7, 3, 5),
    (7, 129, 65),
    (8, 1, 1),
    (16, 32, 128),
    (33, 20, 51),
    (49, 40, 24),
    (70, 129, 65),
]
TOLERANCE = {
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}


@pytest.fixture(autouse=True)
def keep_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def check_against_reference(arguments: list[Tensor]) -> None:
    """Compare values and gradients with those of the body in float64, for the same arguments."""
    wide = [argument.double() for argument in arguments]
    tolerance = TOLERANCE[arguments[0].dtype]
    for ours, theirs in zip(lltm_cell(*arguments), lltm_cell.reference(*wide)[:2], strict=True):
        assert ours.dtype == arguments[0].dtype
        torch.testing.assert_close(ours.double(), theirs, **tolerance)
    outer = [torch.randn(arguments[2].shape, dtype=arguments[0].dtype) for _ in "hc"]
    found = gradients(lltm_cell, arguments, outer)
    wanted = gradients(lambda *a: lltm_cell.reference(*a)[:2], wide, [grad.double() for grad in outer])
    for ours, theirs in zip(found, wanted, strict=True):
        # A gradient of the weight sums over the batch, so its rounding goes with the largest element.
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.double() / scale, theirs / scale, **tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_the_reference(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    check_against_reference(cell_arguments(*size, dtype))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded"])
@pytest.mark.parametrize("batch", [1, 2, 17])
def test_takes_any_strides(batch: int, layout: str, place: int, dtype: torch.dtype) -> None:
    arguments = cell_arguments(batch, 12, 20, dtype)
    arguments[place] = laid_out(arguments[place], layout)
    check_against_reference(arguments)


@pytest.mark.parametrize("size", [(0, 3, 5), (0, 32, 128)], ids=str)
def test_empty_batch_has_gradients_of_zero(size: tuple[int, int, int]) -> None:
    arguments = cell_arguments(*size, torch.float32)
    hidden, cell = lltm_cell(*arguments)
    assert hidden.shape == cell.shape == arguments[2].shape
    found = gradients(lltm_cell, arguments, [torch.zeros_like(hidden), torch.zeros_like(cell)])
    assert [grad.shape for grad in found] == [argument.shape for argument in arguments]
    assert not found[3].any()
    assert not found[4].any()


@pytest.mark.parametrize("size", [(1, 3, 4), (2, 3, 4), (9, 5, 6)], ids=str)
def test_gradients_of_first_and_second_order(size: tuple[int, int, int]) -> None:
    arguments = [argument.requires_grad_() for argument in cell_arguments(*size)]
    assert torch.autograd.gradcheck(lltm_cell, arguments)
    assert torch.autograd.gradgradcheck(lltm_cell, arguments)


@pytest.mark.parametrize("gate", [-1000.0, -88.0, 0.0, 88.0, 1000.0])
@pytest.mark.parametrize("batch", [1, 16])
def test_any_finite_gate_has_a_finite_gradient(batch: int, gate: float) -> None:
    arguments = cell_arguments(batch, 4, 8, torch.float32)
    arguments[3].zero_()
    arguments[4].fill_(gate)
    outer = [torch.ones(batch, 8), torch.ones(batch, 8)]
    found = gradients(lltm_cell, arguments, outer)
    wanted = gradients(lambda *a: lltm_cell.reference(*a)[:2], [argument.double() for argument in arguments], outer)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_a_few_rows_do_not_depend_on_the_number_of_threads(dtype: torch.dtype) -> None:
    arguments = cell_arguments(2, 256, 400, dtype)  # 787,200 weights, of which 2^18 are one chunk
    runs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        runs.append(lltm_cell.torch_op(*arguments))
    for run in runs[1:]:
        assert all(torch.equal(ours, first) for ours, first in zip(run, runs[0], strict=True))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [(300, 301), (1, 1), (70, 3)], ids=str)
def test_gradients_of_one_row_do_not_depend_on_the_number_of_threads(size: tuple[int, int], dtype: torch.dtype) -> None:
    arguments = [one.requires_grad_() for one in cell_arguments(1, *size, dtype)]
    runs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        hidden, cell = lltm_cell(*arguments)
        runs.append(torch.autograd.grad(hidden.sum() + 2 * cell.sum(), arguments))
    for run in runs[1:]:
        assert all(map(torch.equal, run, runs[0]))
    check_against_reference(cell_arguments(1, *size, dtype))


def check_equal_bit_for_bit(size: tuple[int, int, int], dtype: torch.dtype, threads: tuple[int, ...]) -> None:
    arguments = cell_arguments(*size, dtype)
    with torch.no_grad():
        saved = lltm_cell.torch_op(*arguments)
        outer = [torch.randn(size[0], size[2], dtype=dtype) for _ in "hc"]
        runs = []
        for count in threads:
            torch.set_num_threads(count)
            again = lltm_cell.torch_op(*arguments)
            runs.append((*again, *lltm_cell_backward(*outer, *arguments, saved[2], saved[1])))
    for run in runs[1:]:
        assert all(torch.equal(ours, first) for ours, first in zip(run, runs[0], strict=True))


@pytest.mark.parametrize(
    ("size", "dtype"),
    [((70, 100, 200), dtype) for dtype in TOLERANCE if dtype != torch.bfloat16] + [((2, 60, 120), torch.bfloat16)],
    ids=str,
)
def test_results_do_not_depend_on_the_number_of_threads(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    check_equal_bit_for_bit(size, dtype, threads=(1, 2, 3, 5))


@pytest.mark.parametrize("threads", [1, 3])
def test_where_pytorch_multiplies_each_run_gives_the_same(threads: int) -> None:
    """With as many threads: on processors with AMX, PyTorch's products have other bits with three than with two."""
    check_equal_bit_for_bit((70, 100, 200), torch.bfloat16, threads=(threads,) * 3)


@pytest.mark.parametrize("size", [(1, 3, 5), (16, 3, 5)], ids=str)
def test_passes_opcheck(size: tuple[int, int, int]) -> None:
    arguments = [argument.requires_grad_() for argument in cell_arguments(*size, torch.float32)]
    torch.library.opcheck(lltm_cell.torch_op, tuple(arguments))


@pytest.mark.parametrize("place", range(5))
def test_gives_the_gradient_of_one_argument(place: int) -> None:
    arguments = cell_arguments(16, 3, 5)
    leaf = arguments[place].requires_grad_()
    lltm_cell(*arguments)[0].sum().backward()
    (wanted,) = torch.autograd.grad(lltm_cell.reference(*arguments)[0].sum(), [leaf], allow_unused=True)
    torch.testing.assert_close(leaf.grad, wanted)


def test_compiles_into_one_graph_for_any_batch() -> None:
    def step(*arguments: Tensor) -> tuple[Tensor, ...]:
        return lltm_cell(*arguments)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch in (4, 16, 21):
        arguments = cell_arguments(batch, 3, 5)
        outer = [torch.ones(batch, 5, dtype=torch.float64)] * 2
        for ours, theirs in zip(
            gradients(compiled, arguments, outer), gradients(lltm_cell, arguments, outer), strict=True
        ):
            torch.testing.assert_close(ours, theirs)
