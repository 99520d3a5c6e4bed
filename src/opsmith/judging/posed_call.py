"""Calls the reference of a task that is judged itself, with its own inputs and with changed ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.parts import rows_of
from opsmith.judging.task import Task
from opsmith.judging.tasks.trees import as_real, tensors_of
from opsmith.subject.indexing import ask_the_cpu, may_stop_a_gpu

__all__ = ["PosedCall", "moved_copy"]


class PosedCall:
    """One call that a task poses, and its reference's results for it and for others."""

    def __init__(self, task: Task, make: Callable[[int], Mapping[str, Any]], seed: int, device: str) -> None:
        self.task, self.device, self.make, self.seed = task, device, make, seed
        self.values, self.others = make(seed), make(seed + 1)
        # Weights do not count as inputs here: a task whose results follow its weights alone says nothing about its kernel.
        self.inputs = [
            name for name in task.parameters if name not in task.lifted and isinstance(self.values[name], Tensor)
        ]

    @cached_property
    def results(self) -> list[Tensor]:
        """What the reference gives."""
        return self.run(self.values)

    def run(self, values: Mapping[str, Any]) -> list[Tensor]:
        """Return the reference's results for copies of some arguments."""
        return self.run_on([moved_copy(values[name], self.device) for name in self.task.parameters])

    def run_on(self, given: Sequence[Any]) -> list[Tensor]:
        """Return the reference's results for arguments as they are."""
        with torch.no_grad():
            found = self.task.reference(*given)
        return [as_real(one).clone() for one in tensors_of(found)]

    def changed(self, names: Sequence[str], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """Return the arguments with the floating-point tensors of some names changed."""
        return {
            name: _changed(value, change) if name in names and _is_floating(value) else value
            for name, value in self.values.items()
        }

    def has_rows(self) -> bool:
        """Whether it can be compared in parts."""

        def results(given: Mapping[str, Any]) -> list[Tensor]:
            return self.run_on([given[name] for name in self.task.parameters])

        return rows_of(results, self.values, self.inputs) is not None

    def run_other(self, values: Mapping[str, Any]) -> list[Tensor] | None:
        """Return the results for arguments that the task does not make, or None where the reference does not take them."""
        with contextlib.suppress(Exception):
            if self._may_stop_a_gpu:
                ask_the_cpu(self._flat, values)
            return self.run(values)
        return None

    @cached_property
    def _may_stop_a_gpu(self) -> bool:
        values = {name: moved_copy(value, self.device) for name, value in self.values.items()}
        return self.device == "cuda" and may_stop_a_gpu(self._flat, values)

    def _flat(self, values: Mapping[str, Any]) -> Any:
        return self.task.reference(*(values[name] for name in self.task.parameters))


def _changed(value: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    # PyTorch has no arithmetic of eight bits.
    return change(value.float()).to(value.dtype) if value.itemsize == 1 else change(value)


def moved_copy(value: Any, device: str) -> Any:
    """Return an argument, or each of a list, with memory of its own on a device."""
    if isinstance(value, list | tuple):
        return [moved_copy(item, device) for item in value]
    return value.to(device, copy=True) if isinstance(value, Tensor) else value


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
