"""Where a reference is not defined beside the inputs, not any number is right; where an order decides, any infinity is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.disagreement import Disagreement
from opsmith.subject.oracle import compare, expect
from opsmith.subject.subject import subject_of

NAN, INF = torch.nan, torch.inf


def _judged(
    reference: Callable[..., Tensor], found: Tensor, *arguments: Tensor, values: str = "given"
) -> Disagreement | None:
    """Compare results with a reference's; `values` is the kind that the arguments are taken for."""
    names = ("x", "y", "z")[: len(arguments)]
    subject = subject_of(reference, reference=reference, examples=[arguments], devices=("cpu",))
    recipes: dict[str, Any] = {
        name: TensorRecipe(tuple(one.shape), str(one.dtype)[6:], values=values, given=one)
        for name, one in zip(names, arguments, strict=True)
    }
    given = dict(zip(names, arguments, strict=True))
    return compare([found], expect(subject, Case(recipes), given))


def _acos(x: Tensor) -> Tensor:
    return torch.acos(x)


def _angle(x: Tensor) -> Tensor:
    """The angle between rows and themselves: 0, by way of the cosine."""
    return torch.acos((x * x).sum(1) / (x.norm(dim=1) * x.norm(dim=1)))


@pytest.mark.parametrize("at_the_end", [42.0, NAN, 0.0])
def test_at_the_end_of_a_domain_one_number_is_right(at_the_end: float) -> None:
    """The inputs are exact."""
    x = torch.tensor([1.0, 0.5, -1.0])
    found = x.acos()
    found[0] = at_the_end
    assert (_judged(_acos, found, x) is None) == (at_the_end == 0)


def test_a_domain_that_ends_at_one_side_has_a_limit() -> None:
    mask = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])

    def lengths(x: Tensor) -> Tensor:
        return (1 - x).sqrt().sum(1)

    assert _judged(lengths, lengths(mask), mask) is None
    for wrong in (torch.zeros(2), torch.tensor([NAN, 3.0])):
        assert _judged(lengths, wrong, mask) is not None


def test_roundings_inside_that_leave_a_domain_allow_no_other_number() -> None:
    x = torch.randn(16, 40, generator=torch.Generator().manual_seed(1))
    right = torch.zeros(16)
    assert _judged(_angle, right, x) is None
    assert _judged(_angle, right.masked_fill(torch.arange(16) % 2 == 0, NAN), x) is None
    assert _judged(_angle, right + 4.9e-4, x) is None  # a cosine of one unit less
    assert _judged(_angle, right + 1.0, x) is not None


def _scaled_product(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x @ y) * z.float()


def test_one_argument_in_half_precision_does_not_make_all_of_a_call_so() -> None:
    random = torch.Generator().manual_seed(2)
    x, y, z = torch.randn(8, 32, generator=random), torch.randn(32, 8, generator=random), torch.rand(8).half() + 1
    assert _judged(_scaled_product, _scaled_product(x, y, z), x, y, z) is None
    assert _judged(_scaled_product, _scaled_product(x.bfloat16(), y.bfloat16(), z).float(), x, y, z) is not None
    halves = (x.half(), y.half(), z)
    assert _judged(_scaled_product, _scaled_product(x.half().float(), y.half().float(), z), *halves) is None


def _chain(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return x @ y @ z


def test_an_infinity_may_meet_a_sum_before_or_after_it_is_added_up() -> None:
    random = torch.Generator().manual_seed(3)
    x, y, z = (torch.randn(6, 6, generator=random) for _ in range(3))
    x[0, 0], x[1, 2] = INF, -INF
    other = x @ (y @ z)
    assert not torch.equal(other[:2].isnan(), _chain(x, y, z)[:2].isnan())
    assert _judged(_chain, other, x, y, z, values="special") is None
    assert _judged(_chain, other.masked_fill(~other.isfinite(), 3.0), x, y, z, values="special") is not None
    x[2, 2] = NAN
    assert _judged(_chain, x @ (y @ z), x, y, z, values="special") is None
    opposite = (x @ (y @ z)).where(~x.isinf().any(1, keepdim=True), -_chain(x, y, z))
    assert _judged(_chain, opposite, x, y, z, values="special") is not None
    other[2] = INF  # what NaN makes stays NaN
    assert _judged(_chain, other, x, y, z, values="special") is not None


@pytest.mark.parametrize("lost", [INF, NAN])
def test_what_is_not_affine_has_its_infinities(lost: float) -> None:
    x = torch.tensor([[INF, 1.0, 2.0], [-INF, -INF, -INF]])
    right = torch.logsumexp(x, 1)
    wrong = torch.tensor([INF, lost])
    assert _judged(lambda x: torch.logsumexp(x, 1), right, x, values="special") is None
    assert _judged(lambda x: torch.logsumexp(x, 1), wrong, x, values="special") is not None


def _normed(x: Tensor, y: Tensor) -> Tensor:
    """A norm with its mean in the offset, whose infinities meet."""
    mean, scale = x.mean(0), y / x.std(0)
    return (x * scale - mean * scale).clamp(0, 6)


def test_a_number_that_infinities_have_in_another_order_is_right() -> None:
    x, y = torch.randn(8, 4), torch.tensor([1.0, INF, -INF, 2.0])
    found = ((x - x.mean(0)) * (y / x.std(0))).clamp(0, 6)
    assert bool(_normed(x, y).isnan().any())
    assert not bool(found.isnan().any())
    assert _judged(_normed, found, x, y, values="special") is None
    found[0, 0] += 1  # beside a finite weight
    assert _judged(_normed, found, x, y, values="special") is not None


def test_a_difference_of_infinities_that_no_number_has_stays_undefined() -> None:
    x = torch.tensor([1.0, INF, NAN])
    assert _judged(lambda x: x.exp() * NAN, torch.zeros(3), x, values="special") is not None
