"""Makes a task's inputs on the device where they are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from opsmith.judging.task import Task
from opsmith.judging.tasks.places import on_device
from opsmith.subject.blame import is_out_of_memory

__all__ = ["made_on"]

_Make = Callable[[int], Mapping[str, Any]]


def made_on(task: Task, device: str) -> Task:
    """Return a task whose inputs are made on a device, or moved there where its own code makes them on the CPU alone.

    Making a tensor of a gigabyte takes a CPU many seconds, and each judgement asks for dozens.
    """
    if device == "cpu":
        return task
    return replace(
        task,
        inputs=_Maker(task.inputs, device),
        posed={label: _Maker(make, device) for label, make in task.posed.items()},
    )


class _Maker:
    """A maker of inputs, in a block whose tensors are on a device by default."""

    def __init__(self, make: _Make, device: str) -> None:
        self._make, self._device = make, device
        self._is_of_cpu = False

    def __call__(self, seed: int) -> Mapping[str, Any]:
        if not self._is_of_cpu:
            try:
                with torch.device(self._device):
                    return self._moved(self._make(seed))
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                # It has a generator of the CPU, or asks NumPy. What it raises there too is told by the next line.
                self._is_of_cpu = True
        return self._moved(self._make(seed))

    def _moved(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: on_device(value, self._device) for name, value in values.items()}
