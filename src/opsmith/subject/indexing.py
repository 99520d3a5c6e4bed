"""Asks a reference on the CPU before it runs on a GPU, where its data may stop the GPU.

An index out of range is an exception on the CPU, which is a refusal. On a GPU it is an assertion of the device, after which
the process can use the GPU no more, and what is checked would seem to have crashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.blame import blamed_on_reference
from opsmith.subject.case import Case
from opsmith.subject.copies import copied
from opsmith.subject.dispatch import DispatchMode
from opsmith.subject.subject import Subject

__all__ = ["Asserts", "ask_the_cpu", "ask_the_cpu_first", "asserts_of", "may_stop_a_gpu"]

_Run = Callable[[Mapping[str, Any]], Any]
# What PyTorch says where a reference makes tensors on a GPU itself, which then says nothing of its arguments.
_BOTH_DEVICES = "on the same device"

# PyTorch's operators whose kernels for GPUs assert something about their data, by how their names begin.
_ASSERTING = (
    "index",
    "_index",
    "_unsafe_index",
    "gather",
    "scatter",
    "take",
    "put",
    "embedding",
    "_embedding",
    "nll_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multinomial",
    "bernoulli",
    "binary_cross_entropy",
    "max_unpool",
    "repeat_interleave",
    "segment_reduce",
    "_assert_async",
)
# Those of them that assert something of floating numbers: any that are not the task's, or off by a rounding, may stop a GPU.
_OF_NUMBERS = ("multinomial", "bernoulli", "binary_cross_entropy", "_assert_async")
_OF_NONE = ("binary_cross_entropy_with_logits",)


def ask_the_cpu_first(subject: Subject, case: Case, values: Mapping[str, Any]) -> None:
    """Raise what the reference raises for a case on the CPU, if `values`, its arguments, are on a GPU and it indexes."""
    if _is_on_gpu(values) and _some_call_may_stop_a_gpu(subject):
        with torch.no_grad():
            blamed_on_reference(lambda given: subject.results(subject.reference, given))(case.build("cpu"))


class Asserts(Enum):
    """What the operators of a function assert something of, where that may stop a GPU."""

    NOTHING = "nothing"
    INDICES = "indices"
    NUMBERS = "numbers"


def asserts_of(run: _Run, values: Mapping[str, Any]) -> Asserts:
    """Return what a call, whose arguments are right, asserts something of."""
    with _Names() as seen, torch.no_grad(), suppress(Exception):
        run(copied(values))
    names = [name for name in seen.names if name.startswith(_ASSERTING) and not name.startswith(_OF_NONE)]
    if any(name.startswith(_OF_NUMBERS) for name in names):
        return Asserts.NUMBERS
    return Asserts.INDICES if names else Asserts.NOTHING


def may_stop_a_gpu(run: _Run, values: Mapping[str, Any]) -> bool:
    """Whether a call, whose arguments are right, has an operator that asserts something about its data."""
    return asserts_of(run, values) is not Asserts.NOTHING


def ask_the_cpu(run: _Run, values: Mapping[str, Any]) -> None:
    """Raise what a function raises for arguments on the CPU, if they are on a GPU."""
    if not _is_on_gpu(values):
        return
    try:
        with torch.no_grad():
            blamed_on_reference(run)(_on_cpu(values))
    except RuntimeError as error:
        if _BOTH_DEVICES not in str(error):
            raise


def _is_on_gpu(values: Mapping[str, Any]) -> bool:
    return any(isinstance(value, Tensor) and value.is_cuda for value in values.values())


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _on_cpu(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_on_cpu(item) for item in value]
    return value.to("cpu", copy=True) if isinstance(value, Tensor) else value


def _some_call_may_stop_a_gpu(subject: Subject) -> bool:
    """Whether a plain call of the reference has an operator that asserts something about its data; found out once."""
    known: dict[str, bool] = subject.__dict__.setdefault("_may_stop_a_gpu", {})
    if "answer" not in known:
        known["answer"] = any(
            _asserts(subject, case) for dtypes in subject.dtypes for case in subject.suite.cases(dtypes, "plain")
        )
    return known["answer"]


def _asserts(subject: Subject, case: Case) -> bool:
    return may_stop_a_gpu(lambda given: subject.results(subject.reference, given), case.build("cpu"))


class _Names(DispatchMode):
    """The names of all operators that are called: "index_select"."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))
