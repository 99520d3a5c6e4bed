"""Says where a property is checked: the operator, the device, the element types, and the time there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from opsmith.subject.subject import Subject

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """Where a property is checked: the operator, the device, and the element types by template parameter.

    `tell` reports the case that is about to run, so that a crash has a name; call it before every call of the kernel.
    `seconds` is how much time there is for more than the first few cases (see `clock` and `pace.Timed`).
    """

    subject: Subject
    device: str
    dtypes: Mapping[str, str]
    tell: Callable[[Any], None] = lambda case: None
    thorough: bool = False
    large: bool = False
    seconds: float = inf

    @property
    def dtype(self) -> str:
        """The element type that the column of the report names."""
        return self.dtypes.get("T", next(iter(self.dtypes.values()), ""))
