"""A definition that refuses all generated calls of a property: the examples are varied instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import subject_of

Kernel = Callable[..., Tensor]


def reference(
    x: Float[Tensor, "N C"], bias: Float[Tensor, "C"] | None = None, groups: int = 1, negative: bool = False
) -> Float[Tensor, "N C"]:
    """The sum of a row's group, in each of its places; groups are at least three and divide the channels."""
    if groups < 3 or x.shape[1] % groups:
        raise ValueError("groups do not divide the channels")
    sums = x.unflatten(1, (groups, -1)).sum(2, keepdim=True).expand(-1, -1, x.shape[1] // groups).flatten(1)
    sums = sums if bias is None else sums + bias
    return -sums if negative else sums


def examples() -> list[tuple[Tensor, Tensor, int]]:
    return [(torch.randn(4, 6), torch.randn(6), 3), (torch.randn(2, 12), torch.randn(12), 4)]


def outcome_of(kernel: Kernel, name: str) -> Outcome:
    subject = subject_of(kernel, reference=reference, examples=examples, devices=("cpu",))
    (result,) = run_check(subject, CheckPlan(chosen((name,)), dtypes=("float32",))).results
    return result.outcome


def right(x: Tensor, bias: Tensor | None = None, groups: int = 1, negative: bool = False) -> Tensor:
    return reference(x, bias, groups, negative)


def deaf(x: Tensor, bias: Tensor | None = None, groups: int = 1, negative: bool = False) -> Tensor:
    return reference(x, bias, groups, False)


def needy(x: Tensor, bias: Tensor | None = None, groups: int = 1, negative: bool = False) -> Tensor:
    assert bias is not None, "there is always a bias"
    return reference(x, bias, groups, negative)


def narrow(x: Tensor, bias: Tensor | None = None, groups: int = 1, negative: bool = False) -> Tensor:
    return reference(x.clamp(-30000, 30000), bias, groups, negative)


@pytest.mark.parametrize("name", ["magnitude", "arguments"])
def test_a_right_one_passes(name: str) -> None:
    outcome = outcome_of(right, name)
    assert outcome.state == "passed"
    assert outcome.inputs >= 2


@pytest.mark.parametrize(
    ("kernel", "name", "message"),
    [
        (deaf, "arguments", "negative = True"),
        (needy, "arguments", "there is always a bias"),
        (narrow, "magnitude", "huge values"),
    ],
)
def test_a_wrong_one_is_found(kernel: Kernel, name: str, message: str) -> None:
    outcome = outcome_of(kernel, name)
    assert outcome.state == "failed"
    assert message in outcome.findings[0].message
