"""What is measured of a reference: which results are pointwise, what roundings inside do, and where it jumps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.evidence import Evidence
from opsmith.subject.stochastic import DOWN, UP, rounded_at_random
from opsmith.subject.structure import pointwise_results
from opsmith.subject.subject import subject_of

Body = Callable[[Tensor, Tensor], Any]


def _structure(body: Body) -> tuple[bool, ...]:
    def reference(x: Float[Tensor, "B N"], scale: Float[Tensor, "N"]) -> Any:
        return body(x, scale)

    subject = subject_of(reference, reference=reference, examples=[(torch.ones(4, 6), torch.ones(6))], devices=("cpu",))
    case = Case({"x": TensorRecipe((4, 6), "float32"), "scale": TensorRecipe((6,), "float32", seed=1)})
    return pointwise_results(subject, case, lambda given: subject.results(reference, given), None)


POINTWISE: dict[str, tuple[Body, tuple[bool, ...]]] = {
    "scaled by columns": (lambda x, scale: torch.tanh(x * scale), (True,)),
    "turned": (lambda x, scale: x.t().clone(), (True,)),
    "softmax": (lambda x, scale: x.softmax(1), (False,)),
    "running sum": (lambda x, scale: x.cumsum(1), (False,)),
    "maximum": (lambda x, scale: x.amax(1), (False,)),
    "two results": (lambda x, scale: (x + scale, x.sum(0)), (True, False)),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_which_results_are_pointwise(name: str):
    body, expected = POINTWISE[name]
    assert _structure(body) == expected


def test_a_reference_that_takes_no_other_numbers_is_not_known():
    def picky(x: Tensor, scale: Tensor) -> Tensor:
        if not bool((x > 0).all()):
            raise ValueError("x is not positive")
        return x

    assert _structure(picky) == ()


def _moved(function: Callable[[Tensor], Tensor], numbers: list[float], dtype: torch.dtype, seed: int) -> list[bool]:
    wide = {"x": torch.tensor(numbers, dtype=torch.float64)}

    def run(values: Mapping[str, Any]) -> list[Tensor]:
        return [function(values["x"])]

    return (rounded_at_random(run, wide, dtype, seed)[0] != run(wide)[0]).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("seed", [0, UP, DOWN])
def test_what_is_exact_is_not_rounded(dtype: torch.dtype, seed: int):
    assert _moved(lambda x: x + 0.5, [1.0, -2.5, 0.0], dtype, seed) == [False] * 3
    assert _moved(torch.tanh, [0.0], dtype, seed) == [False]
    assert _moved(torch.square, [1.5, -3.0], dtype, seed) == [False] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("seed", [UP, DOWN])
def test_what_is_rounded_moves(dtype: torch.dtype, seed: int):
    assert _moved(lambda x: x / 3, [1.0, -2.0], dtype, seed) == [True] * 2
    # Short results that are not exact: a saturated function, and a lost addend.
    assert _moved(torch.tanh, [30.0], dtype, seed) == [True]
    assert _moved(lambda x: x + 1e-30, [1.0], dtype, seed) == [True]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_jump_is_told_from_a_slope(dtype: torch.dtype):
    values = {"x": torch.tensor([3.0, 2.5, -4.0], dtype=dtype)}

    def run(given: Mapping[str, Any]) -> list[Tensor]:
        return [torch.floor(given["x"]), torch.exp(given["x"])]

    evidence = Evidence(run, values, dtype, 1)
    measured = evidence.measured(4)
    assert evidence.jumps[0].tolist() == [True, False, True]
    assert not bool(evidence.jumps[1].any())
    assert measured.spread[0].tolist() == [0, 0, 0]
    assert bool((measured.spread[1] > 0).all())


def test_an_index_between_numbers_that_roundings_tell_apart_may_be_either():
    """Of 300 calls: with two random roundings each, every fourth index would stay where it was."""

    def nearest(values: Mapping[str, Any]) -> list[Tensor]:
        return [(values["x"][:, None] - values["y"]).square().argmin(1)]

    x = 1 + torch.rand(300, generator=torch.Generator().manual_seed(0)).bfloat16().double()
    near, exact = torch.tensor([1e-9, 2e-9], dtype=torch.float64), torch.tensor([2.0, 2.0], dtype=torch.float64)
    for y, may_move in ((near, True), (exact, False)):
        evidence = Evidence(nearest, {"x": x.bfloat16(), "y": y.bfloat16()}, torch.bfloat16, 0)
        (noise,) = evidence.measured_closely(evidence.measured(2), 4).noise
        assert (noise > 0).tolist() == [may_move] * 300


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_quotient_is_as_good_by_the_reciprocal(dtype: torch.dtype):
    numbers = torch.tensor([75.0, 6.0, 75.0, 0.0], dtype=dtype)
    divisors = torch.tensor([6.0, 3.0, 8.0, 3.0], dtype=dtype)  # a tie, an integer, by a power of two, nothing
    run = lambda values: [values["x"].to(dtype) / divisors]  # noqa: E731 -- one line
    exact, moved = (
        call[0] for call in (run({"x": numbers}), rounded_at_random(run, {"x": numbers}, torch.float32, UP))
    )
    assert (moved != exact).tolist() == [True, False, False, False]


def test_a_reference_that_raises_beside_its_inputs_shows_what_it_takes():
    def run(values: Mapping[str, Any]) -> list[Tensor]:
        if bool((values["x"] > 1).any()):
            raise ValueError("x is above 1")
        return [values["x"].square()]

    evidence = Evidence(run, {"x": torch.tensor([0.5, 1.0])}, torch.float32, 0)
    assert bool((evidence.measured(2).spread[0] > 0).all())  # by numbers that are smaller
    evidence = Evidence(lambda values: run({"x": values["x"] * 2}), {"x": torch.tensor([-0.5, 0.5])}, torch.float32, 0)
    assert bool((evidence.measured(2).spread[0] > 0).all())


def test_roundings_that_one_unit_of_the_inputs_does_not_change_are_found():
    def run(values: Mapping[str, Any]) -> list[Tensor]:
        return [(1 + values["x"].exp()).log()]

    # One part of the sum is far below its last digit, so that its rounding is the same beside the inputs.
    evidence = Evidence(run, {"x": torch.full((400,), -10.0)}, torch.float32, 0)
    (noise,) = evidence.measured_closely(evidence.measured(2), 8).noise
    assert float(noise.min()) > 2.0**-26


def test_constants_that_a_function_computes_in_float32_have_roundings_too():
    def run(values: Mapping[str, Any]) -> list[Tensor]:
        angles = torch.arange(40.0) * (torch.arange(40.0) * -0.2).exp()
        return [values["x"] * angles.cos(), torch.arange(40.0) * 4, values["x"] * torch.ones(40)]

    wide = {"x": torch.linspace(1, 2, 40, dtype=torch.float64).float().double()}
    exact, moved = run(wide), rounded_at_random(run, wide, torch.float32, 3)
    off = (moved[0] / exact[0] - 1).abs().amax() / torch.finfo(torch.float32).eps
    assert 0.5 < float(off) < 100
    assert all(map(torch.equal, exact[1:], moved[1:]))


def test_integers_that_floating_numbers_round_may_be_either():
    def requantised(values: Mapping[str, Any]) -> list[Tensor]:
        return [(values["x"].float() * 0.1 * 5).round().to(torch.int8), values["x"] + 1]

    x = torch.arange(-40, 40, dtype=torch.int8)
    evidence = Evidence(requantised, {"x": x}, None, 0)
    rounded, exact = evidence.measured_closely(evidence.measured(2), 4).noise
    moved = rounded > 0
    assert bool(moved.any())
    assert not bool(moved[x % 2 == 0].any())  # only halves, of which a rounding decides
    assert not bool(exact.any())


def test_a_result_of_integers_may_be_off_by_roundings_inside():
    def run(values: Mapping[str, Any]) -> list[Tensor]:
        return [torch.sin(values["positions"] * (torch.arange(8.0) * -0.9).exp()), values["positions"] + 1]

    evidence = Evidence(run, {"positions": torch.arange(1000, 1008)}, None, 0)
    assert evidence.dtype is torch.float32
    angles, whole = evidence.measured_closely(evidence.measured(2), 4).noise
    assert 1e-6 < float(angles.max()) < 1e-2
    assert float(whole.max()) == 0


@pytest.mark.parametrize(
    "total",
    [lambda x: x.sum(), lambda x: x.mean() * x.numel(), lambda x: x @ torch.ones_like(x)],
    ids=["sum", "mean", "dot"],
)
def test_a_sum_has_the_roundings_of_its_terms(total: Callable[[Tensor], Tensor]):
    wide = {"x": torch.rand(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)}

    def run(values: Mapping[str, Any]) -> list[Tensor]:
        return [total(values["x"])]

    exact, moved = run(wide)[0], rounded_at_random(run, wide, torch.float32, UP)[0]
    assert 10 < float((moved / exact - 1) / torch.finfo(torch.float32).eps) < 20
