"""A million elements are tried where that takes no long time, in one element type, and what is wrong there is returned."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.checker.properties.context import Context
from opsmith.checker.properties.longest_calls import longest_calls
from opsmith.subject.subject import subject_of

_MILLION = 1 << 20


def halved(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """The reference of all kernels here."""
    return x * 0.5


def halved_up_to_a_million(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """A kernel that leaves what lies behind as it is."""
    return torch.cat([x[:_MILLION] * 0.5, x[_MILLION:]])


def halved_slowly(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """A kernel that would take a second for a million elements, as it would in an interpreter."""
    assert len(x) < _MILLION
    until_s = time.thread_time() + len(x) * 1e-6
    while time.thread_time() < until_s:
        pass
    return x * 0.5


def context_of(kernel: Callable[..., Tensor]) -> Context:
    return Context(subject_of(kernel, reference=halved), "cpu", {"T": "float32"})


def test_the_case_that_is_wrong_is_returned() -> None:
    assert longest_calls(context_of(halved)) == (1, [])
    tried, (wrong,) = longest_calls(context_of(halved_up_to_a_million))
    assert tried == 1
    assert wrong.elements > _MILLION


def test_a_kernel_that_is_slow_already_for_fewer_is_spared() -> None:
    assert longest_calls(context_of(halved_slowly)) == (0, [])


def test_one_element_type_and_a_check_without_a_limit_try_them() -> None:
    context = context_of(halved)
    assert longest_calls(replace(context, is_main_type=False)) == (0, [])
    assert longest_calls(replace(context, until_s=time.monotonic() + 60)) == (0, [])
    assert longest_calls(replace(context, is_main_type=False, thorough=True)) == (1, [])
