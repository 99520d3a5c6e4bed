"""Calls the kernel and the reference of an operator on the cases of its suite."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.process.threads import on_threads
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.devices import wait_for_gpu
from opsmith.subject.indexing import ask_the_cpu_first
from opsmith.subject.subject import Subject

__all__ = [
    "accepted",
    "accepts",
    "differentiated",
    "is_accepted",
    "is_gradient_of_body",
    "kernel_outputs",
    "other_numbers",
    "quiet",
    "seed_generators",
]


def accepted(context: Context, *groups: str) -> Iterator[Case]:
    """Yield the cases of some groups that the reference takes: a kernel need not survive what the reference refuses."""
    return (case for case in context.subject.suite.cases(context.dtypes, *groups) if is_accepted(context, case))


def is_accepted(context: Context, case: Case) -> bool:
    """Whether the reference takes a case of the suite; a reference may be slow, so each case is tried once."""
    key = (id(context.subject), context.device, tuple(context.dtypes.items()), case.group, case.label)
    if key not in _accepted:
        _accepted[key] = accepts(context, case)
    return _accepted[key]


# Several properties go through the same cases.
_accepted: dict[Any, bool] = {}


def accepts(context: Context, case: Case) -> bool:
    """Whether the reference takes a case's arguments."""
    try:
        with quiet(), on_threads(1):
            values = case.build(context.device)
            ask_the_cpu_first(context.subject, case, values)
            context.subject.results(context.subject.reference, values)
    except Exception:
        return False
    return True


def kernel_outputs(subject: Subject, values: Mapping[str, Any]) -> list[Tensor]:
    """Call the kernel without a gradient and return the tensors that it returns."""
    wait_for_gpu()
    with torch.no_grad():
        found = subject.kernel(*subject.arguments(values), **subject.keyword_arguments(values))
    return _tensors(found)


def differentiated(subject: Subject, values: Mapping[str, Any]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Call what users call on arguments that need gradients; return its differentiable results and those arguments.

    Both are empty if there is no gradient.
    """
    if subject.mutated:
        return [], {}
    leaves = {
        name: value.detach().requires_grad_()
        for name, value in values.items()
        if name in subject.differentiable and isinstance(value, Tensor) and value.dtype.is_floating_point
    }
    if not leaves:
        return [], {}
    given = {**values, **leaves}
    found = subject.call(*subject.arguments(given), **subject.keyword_arguments(given))
    return [result for result in _tensors(found) if result.requires_grad], leaves


def is_gradient_of_body(subject: Subject) -> bool:
    """Whether the gradient is PyTorch's own, of the body's operators: there is no kernel for it."""
    return subject.operator is not None and subject.operator.gradient is None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings: what an operator warns of in a thousand calls is not a finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def other_numbers(case: Case) -> Case:
    """Return the case with other numbers; those that are given change sign, but for integers, which may be indices."""

    def other(value: Any) -> Any:
        if isinstance(value, TensorRecipe):
            given = value.given
            negated = -given if given is not None and given.dtype.is_floating_point else given
            return replace(value, seed=value.seed + 500_009, given=negated)
        return tuple(map(other, value)) if isinstance(value, tuple) else value

    return replace(case, arguments={name: other(value) for name, value in case.arguments.items()})


def seed_generators(seed: int) -> None:
    """Seed the generators of the CPU and of the GPUs in use, as torch.manual_seed does, without half a millisecond.

    That formats a stack for each kind of device that is not in use yet, and keeps it.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def _tensors(found: Any) -> list[Tensor]:
    listed = list(found) if isinstance(found, tuple | list) else [found]
    flat = [item for entry in listed for item in (entry if isinstance(entry, tuple | list) else [entry])]
    return [item for item in flat if isinstance(item, Tensor)]
