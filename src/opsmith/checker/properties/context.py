"""Defines the context a property is checked in: the operator, the device, the element types, and the time there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from opsmith.checker.process.clock import now_s
from opsmith.subject.subject import Subject

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """The operator, the device, and the element types by template parameter.

    `tell` reports the case that is about to run, so that a crash has a name; call it before every call of the kernel.
    `seconds` is the time for more than the first few cases (see `TimedCases`). `until_s` is the moment, by
    time.monotonic, at which a check with a limit ends. `is_brief` says that nobody reads the finding: a failing input
    is not made smaller.
    """

    subject: Subject
    device: str
    dtypes: Mapping[str, str]
    tell: Callable[[Any], None] = lambda case: None
    thorough: bool = False
    large: bool = False
    seconds: float = inf
    until_s: float = inf
    is_brief: bool = False
    is_main_type: bool = True

    @property
    def dtype(self) -> str:
        """The element type that the column of the report names."""
        return self.dtypes.get("T", next(iter(self.dtypes.values()), ""))

    @property
    def is_limited(self) -> bool:
        """Whether the whole check has a limit of time."""
        return self.until_s < inf

    def now_s(self) -> float:
        """Return the time that `seconds` is measured in."""
        return now_s(self.device, by_clock=self.is_limited)
