"""Says which tasks children of this process cannot work on, because of what it has done before the check.

A fork of a process that uses a GPU cannot use one. Where PyTorch is built for one, autograd may start threads with the
first backward, even of tensors of the CPU, and refuses to work in children that are forked after that (PyTorch's wiki,
"Autograd and Fork"): beside a GPU after any backward, without one after that of something that torch.compile has compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from opsmith.checker.process.child import Ended, Send, in_child
from opsmith.checker.process.schedule import Task
from opsmith.checker.properties.table import Property

__all__ = ["Forks"]

_SILENCE_S = 20.0
_NOTE = (
    "autograd has been used in this process and does not work in its children: gradients were checked in the process "
    "itself, where a crash would end it, and what a backward does to memory was not looked at; an operator that can be "
    "imported is checked in a new process, and so does the command `opsmith check`"
)


@dataclass(frozen=True)
class Forks:
    """What children that are forked now are able to do."""

    can_use_gpu: bool
    can_differentiate: bool

    @classmethod
    def of_this_process(cls, properties: Iterable[Property]) -> Forks:
        """Find out for some properties, where one of them differentiates by trying: PyTorch does not say."""
        needs_autograd = any(item.differentiates for item in properties)
        return cls(not torch.cuda.is_initialized(), not needs_autograd or _can_differentiate())

    def can_run(self, task: Task) -> bool:
        """Whether a child can work on a task."""
        needs_gpu = task.column.device != "cpu"
        return (self.can_use_gpu or not needs_gpu) and (self.can_differentiate or not task.item.differentiates)

    @property
    def note(self) -> str:
        """What the report says where gradients are checked in this process, or ""."""
        return "" if self.can_differentiate else _NOTE


def _can_differentiate() -> bool:
    def work(send: Send) -> None:
        leaf = torch.ones((), requires_grad=True)
        (leaf * 2).backward()
        send(True)

    *answers, ended = in_child(work, silence_s=_SILENCE_S)
    assert isinstance(ended, Ended)
    return bool(answers)
