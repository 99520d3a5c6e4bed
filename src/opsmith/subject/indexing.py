"""Asks a reference on the CPU before it runs on a GPU, where its data may stop the GPU.

An index out of range is an exception on the CPU, which is a refusal. On a GPU it is an assertion of the device, after which
the process can use the GPU no more, and what is checked would seem to have crashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from opsmith.subject.blame import blamed_on_reference
from opsmith.subject.case import Case
from opsmith.subject.copies import copied
from opsmith.subject.dispatch import DispatchMode
from opsmith.subject.subject import Subject

__all__ = ["ask_the_cpu", "ask_the_cpu_first", "may_stop_a_gpu"]

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


def ask_the_cpu_first(subject: Subject, case: Case, values: Mapping[str, Any]) -> None:
    """Raise what the reference raises for a case on the CPU, if `values`, its arguments, are on a GPU and it indexes."""
    if _is_on_gpu(values) and _some_call_may_stop_a_gpu(subject):
        with torch.no_grad():
            blamed_on_reference(lambda given: subject.results(subject.reference, given))(case.build("cpu"))


def may_stop_a_gpu(run: _Run, values: Mapping[str, Any]) -> bool:
    """Whether a call, whose arguments are right, has an operator that asserts something about its data."""
    with _Names() as seen, torch.no_grad(), suppress(Exception):
        run(copied(values))
    return any(name.startswith(_ASSERTING) for name in seen.names)


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
