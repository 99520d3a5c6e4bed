"""Describes a task: what a candidate has to compute, and with which inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsmith.judging.candidate import Entry
from opsmith.spec.signature import Signature

__all__ = ["Task", "Tolerance"]


@dataclass(frozen=True)
class Tolerance:
    """How far off a result may be where the task says so: |found - expected| <= absolute + relative * |expected|.

    `source` says where it stands. It is kept for the reader: what the judge allows is derived from the inputs, as
    `opsmith check` does, and a result that only the task's tolerance lets pass is refused.
    """

    absolute: float
    relative: float
    source: str


@dataclass(frozen=True)
class Task:
    """What a candidate has to compute: a function of flat arguments, and makers of these.

    `reference` is plain PyTorch. It takes the arguments by position, in the order of `parameters`, each a tensor, a list
    of tensors, a number, a text or None, and returns a tensor or a tuple of them. Of a module, `parameters` are those of
    its `forward` and then its weights and buffers, which `lifted` maps to their names in the state dict; the reference
    uses those it is given (`torch.func.functional_call`), so weights are inputs that vary.

    `inputs` makes the arguments as the task poses them: a mapping by parameter for a seed, with tensors where PyTorch makes
    them by default, new ones for each call, and the same numbers for the same seed. `posed` names several calls of it where
    the task has several shapes, by label; each is such a maker.

    `signature` has the shapes in symbols, as a definition's has; the judge tries other sizes where it is known. `guessed`
    lists its symbols as text where they are not the task's own words: "N = 4096 (x[1], w[0])".

    `entry` says how a candidate is called. `trains` says that gradients are asked for, and `differentiable` for which
    parameters; all floating ones where that is None. `tolerance` is the task's own, if it has one. `beside` are files that
    a candidate of the task may import, by name. `notes` say what a reader should know of how the task was read.
    """

    name: str
    kind: str
    parameters: tuple[str, ...]
    reference: Callable[..., Any]
    inputs: Callable[[int], Mapping[str, Any]]
    entry: Entry
    posed: Mapping[str, Callable[[int], Mapping[str, Any]]] = field(default_factory=dict)
    lifted: Mapping[str, str] = field(default_factory=dict)
    signature: Signature | None = None
    guessed: tuple[str, ...] = ()
    trains: bool = False
    differentiable: tuple[str, ...] | None = None
    tolerance: Tolerance | None = None
    path: Path | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def makers(self) -> Mapping[str, Callable[[int], Mapping[str, Any]]]:
        """The calls that the task poses, by label."""
        return self.posed or {"as posed": self.inputs}

    @property
    def told(self) -> tuple[str, ...]:
        """Its notes, what was taken for symbols, by which other sizes are tried, and a tolerance that does not count."""
        guessed = (f"equal sizes are taken for one: {'; '.join(self.guessed)}",) if self.guessed else ()
        if (own := self.tolerance) is None:
            return (*self.notes, *guessed)
        allowed = f"{own.source} allows {own.relative:g} of a number and {own.absolute:g} beside it"
        return (*self.notes, *guessed, f"{allowed}; what is allowed here follows from the inputs")
