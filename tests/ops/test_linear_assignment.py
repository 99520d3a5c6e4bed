"""linear_assignment: totals against SciPy, optimality by brute force, ragged batches, forbidden pairs, ties, refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from opsmith.ops.linear_assignment import linear_assignment, linear_assignment_ragged, linear_sum_assignment

pytestmark = pytest.mark.compile

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])

# More columns than a block has threads, and sizes around those of vectors and warps.
SIZES = [(1, 1), (7, 7), (40, 40), (16, 33), (65, 32), (3, 300), (90, 10), (5, 1100)]


def uniform(n: int, m: int, seed: int = 0) -> Tensor:
    return torch.rand(n, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integers(n: int, m: int, seed: int = 0) -> Tensor:
    return torch.randint(-3, 4, (n, m), generator=torch.Generator().manual_seed(seed)).double()


def product(n: int, m: int, seed: int = 0) -> Tensor:
    """Costs i * j, on which shortest paths are longest."""
    return (torch.arange(1.0, n + 1)[:, None] * torch.arange(1.0, m + 1)).double() + seed


def detections(n: int, m: int, seed: int = 0) -> Tensor:
    """Distances of points on a line: many want the same partner."""
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(n, 1, generator=random) - 0.1 * torch.randn(1, m, generator=random)).abs().double()


def pairs_of(columns: Tensor) -> tuple[Tensor, Tensor]:
    """(row_ind, col_ind), as the documentation says how they follow."""
    (rows,) = (columns >= 0).nonzero(as_tuple=True)
    return rows, columns[rows]


def total(cost: Tensor, columns: Tensor) -> float:
    return float(cost.double()[pairs_of(columns)].sum())


def assert_one_to_one(columns: Tensor, rows: Tensor) -> None:
    """The two results say the same, and no partner is taken twice."""
    assert columns.dtype == rows.dtype == torch.int64
    first, second = pairs_of(columns)
    assert torch.equal(rows[second], first)
    assert int((rows >= 0).sum()) == len(first)


def best_by_trying(cost: Tensor) -> tuple[int, float]:
    """The most pairs that finite costs allow, and the lowest total of so many, of a small matrix."""
    n, m = cost.shape
    best = (0, 0.0)
    for count in range(1, min(n, m) + 1):
        totals = [
            float(cost[list(rows), list(columns)].sum())
            for rows in itertools.combinations(range(n), count)
            for columns in itertools.permutations(range(m), count)
        ]
        least = min(totals)
        if least < math.inf:
            best = (count, least)
    return best


@devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", [uniform, integers, product, detections])
def test_totals_are_scipys(make: Callable[..., Tensor], dtype: torch.dtype, device: str) -> None:
    scipy = pytest.importorskip("scipy.optimize")
    for n, m in SIZES:
        cost = make(n, m).to(dtype)
        wide = cost.double()
        for maximize in (False, True):
            columns, rows = (one.cpu() for one in linear_assignment(cost.to(device), maximize))
            assert columns.shape == (n,)
            assert rows.shape == (m,)
            assert_one_to_one(columns, rows)
            expected = float(wide[scipy.linear_sum_assignment(wide.numpy(), maximize)].sum())
            assert len(pairs_of(columns)[0]) == min(n, m)
            assert total(wide, columns) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@devices
@pytest.mark.parametrize("make", [uniform, integers, product, detections])
def test_kernels_agree_with_the_definition_in_every_tie(make: Callable[..., Tensor], device: str) -> None:
    for n, m in SIZES[:-1]:
        costs = torch.stack([make(n, m, seed) for seed in range(2)]).float()
        costs[1][uniform(n, m, 3) < 0.6] = math.inf
        for one, other in zip(
            linear_assignment_ragged(costs.to(device)), linear_assignment_ragged.reference(costs), strict=True
        ):
            assert torch.equal(one.cpu(), other)


@devices
@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e290])
def test_as_many_pairs_as_can_be_and_of_those_the_cheapest(scale: float, device: str) -> None:
    costs = torch.stack([uniform(*size, seed) for seed in range(40) for size in [(4, 5)]]) - 0.4
    costs[uniform(40, 20, 1).view(40, 4, 5) < 0.65] = math.inf
    costs *= scale
    found_columns, found_rows = (one.cpu() for one in linear_assignment(costs.to(device)))
    incomplete = 0
    for cost, columns, rows in zip(costs, found_columns, found_rows, strict=True):
        assert_one_to_one(columns, rows)
        count, least = best_by_trying(cost)
        assert len(pairs_of(columns)[0]) == count
        assert total(cost, columns) == pytest.approx(least, rel=1e-9)
        incomplete += count < 4
    assert 5 < incomplete < 35


@devices
@pytest.mark.parametrize("maximize", [False, True])
def test_what_is_not_finite_is_forbidden(maximize: bool, device: str) -> None:
    cost = torch.tensor([[1.0, 2.0, 4.0], [3.0, 7.0, 1.0], [2.0, 9.0, 5.0]], device=device)
    cost[0, 0], cost[2, 1], cost[1, 2] = -math.inf, math.nan, math.inf
    columns, _ = linear_assignment(cost, maximize)
    allowed = torch.where(cost.isfinite(), cost, -1e3 if maximize else 1e3).cpu()
    expected = max if maximize else min
    best = expected(
        itertools.permutations(range(3)), key=lambda order: float(allowed[torch.arange(3), list(order)].sum())
    )
    assert columns.tolist() == list(best)
    huge = torch.tensor([[1e302, 5.0], [6.0, 1e302]], dtype=torch.float64, device=device)
    assert linear_assignment(huge, True)[0].tolist() == [1, 0]


@devices
def test_padding_is_not_read(device: str) -> None:
    costs = torch.stack([uniform(20, 30, seed) for seed in range(7)]).to(device)
    row_lengths = torch.tensor([20, 3, 12, 0, 20, 40, -2], device=device)
    column_lengths = torch.tensor([30, 30, 5, 9, 0, 13, 13], device=device)
    padded = costs.clone()
    for problem, n, m in zip(padded, row_lengths.tolist(), column_lengths.tolist(), strict=True):
        problem[max(n, 0) :] = -1e30
        problem[:, m:] = -1e30
    columns, rows = linear_assignment(padded, False, row_lengths, column_lengths)
    for index, (n, m) in enumerate(zip(row_lengths.clamp(0, 20).tolist(), column_lengths.tolist(), strict=True)):
        alone = linear_assignment(costs[index, :n, :m])
        assert torch.equal(columns[index, :n], alone[0])
        assert torch.equal(rows[index, :m], alone[1])
        assert (columns[index, n:] == -1).all()
        assert (rows[index, m:] == -1).all()
    single = linear_assignment(padded[2], row_lengths=row_lengths[2].int(), column_lengths=column_lengths[2])
    assert torch.equal(single[0], columns[2])


@devices
def test_layouts_do_not_matter(device: str) -> None:
    costs = torch.stack([uniform(12, 40, seed) for seed in range(3)]).to(device)
    expected = linear_assignment(costs)
    strided = torch.zeros(3, 12, 80, dtype=torch.float64, device=device)[..., ::2].copy_(costs)
    for given in (costs.transpose(1, 2).contiguous().transpose(1, 2), strided):
        assert all(torch.equal(one, other) for one, other in zip(linear_assignment(given), expected, strict=True))
    rows, columns = linear_assignment(costs.transpose(1, 2))
    assert torch.equal(columns, expected[0])
    assert torch.equal(rows, expected[1])


@devices
def test_ties_go_to_the_cheapest_columns_in_order(device: str) -> None:
    columns, rows = linear_assignment(torch.zeros(3, 5, device=device))
    assert columns.tolist() == [0, 1, 2]
    assert rows.tolist() == [0, 1, 2, -1, -1]


@devices
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (2, 0, 0)], ids=str)
def test_nothing_to_match(shape: tuple[int, int, int], device: str) -> None:
    columns, rows = linear_assignment(torch.zeros(shape, device=device))
    assert columns.shape == shape[:2]
    assert rows.shape == (shape[0], shape[2])
    assert (columns == -1).all()
    assert (rows == -1).all()


@devices
def test_many_columns_for_one_block(device: str) -> None:
    """More than shared memory holds: on a GPU the state is in global memory then."""
    cost = torch.cat([integers(3, 9000, seed)[None] for seed in range(2)]).to(device)
    columns, _ = linear_assignment(cost.transpose(1, 2))
    assert int((columns >= 0).sum()) == 6
    for problem, found in zip(cost.cpu(), linear_assignment(cost)[0].cpu(), strict=True):
        assert total(problem, found) == -9.0


def test_vmap_takes_a_batch() -> None:
    costs = torch.stack([uniform(6, 9, seed) for seed in range(8)]).view(2, 4, 6, 9)
    expected = linear_assignment(costs.flatten(0, 1))
    for one, other in zip(torch.vmap(linear_assignment)(costs), expected, strict=True):
        assert torch.equal(one.flatten(0, 1), other)
    for one, other in zip(torch.vmap(linear_assignment)(costs.flatten(0, 1)), expected, strict=True):
        assert torch.equal(one, other)


def test_costs_that_need_a_gradient_get_none() -> None:
    columns, rows = linear_assignment(uniform(4, 4).requires_grad_())
    assert not columns.requires_grad
    assert not rows.requires_grad


@devices
def test_linear_sum_assignment_is_scipys(device: str) -> None:
    scipy = pytest.importorskip("scipy.optimize")
    for maximize in (False, True):
        for n, m in ((9, 9), (4, 30), (30, 4), (0, 5)):
            cost = uniform(n, m).to(device)
            for one, other in zip(
                linear_sum_assignment(cost, maximize), scipy.linear_sum_assignment(cost.cpu(), maximize), strict=True
            ):
                assert one.device == cost.device
                assert one.tolist() == other.tolist()
    rows, columns = linear_sum_assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
    assert isinstance(rows, np.ndarray)
    assert columns.tolist() == [1, 0, 2]
    # Larger than what linear_assignment takes for finite.
    assert linear_sum_assignment(np.array([[1e305, 1.0], [2.0, 1e305]]))[1].tolist() == [1, 0]


Refusing = Sequence[tuple[Any, bool, str]]
REFUSED: Refusing = (
    (np.zeros(3), False, r"2-D array"),
    (np.array([[1.0, math.nan]]), False, "matrix contains invalid numeric entries"),
    (np.array([[1.0, -math.inf]]), False, "matrix contains invalid numeric entries"),
    (np.array([[1.0, math.inf]]), True, "matrix contains invalid numeric entries"),
    (np.array([[1.0, math.inf], [2.0, math.inf]]), False, "cost matrix is infeasible"),
)


@pytest.mark.parametrize("case", REFUSED, ids=[str(index) for index in range(len(REFUSED))])
def test_linear_sum_assignment_refuses_what_scipy_does(case: tuple[Any, bool, str]) -> None:
    cost, maximize, words = case
    for given in (cost, torch.from_numpy(cost)):
        with pytest.raises(ValueError, match=words) as raised:
            linear_sum_assignment(given, maximize)
        assert isinstance(raised.value, (ArgumentValueError, ShapeError))
    scipy = pytest.importorskip("scipy.optimize")
    with pytest.raises(ValueError, match=words):
        scipy.linear_sum_assignment(cost, maximize)


def test_what_does_not_fit_is_refused() -> None:
    cost = torch.zeros(2, 3, 4)
    with pytest.raises(ShapeError, match="cost has 1 dimension"):
        linear_assignment(cost[0, 0])
    with pytest.raises(ArgumentTypeError, match="cost is"):
        linear_assignment(cost.numpy())
    with pytest.raises(ArgumentTypeError, match="maximize is"):
        linear_assignment(cost, "yes")
    with pytest.raises(DtypeError, match=r"cost is torch\.complex64"):
        linear_assignment(cost.to(torch.complex64))
    with pytest.raises(DtypeError, match=r"row_lengths is torch\.float32"):
        linear_assignment(cost, row_lengths=torch.ones(2))
    with pytest.raises(ShapeError, match="column_lengths"):
        linear_assignment(cost, column_lengths=torch.ones(3, dtype=torch.int64))
    with pytest.raises(ArgumentTypeError, match="cost_matrix is"):
        linear_sum_assignment([["a"]])
