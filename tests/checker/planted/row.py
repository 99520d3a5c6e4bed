"""What a planted defect is: an operator with it, the same operator without it, and the property that must name it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from load import module

from opsmith.runtime.operator import Operator
from opsmith.subject.subject import Subject, subject_of

__all__ = ["TRACING", "VALUES", "Planted", "rows"]

# What follows from a fake kernel that is wrong or missing.
TRACING = ("opcheck", "compile", "export")
# What a kernel does wrong whose results depend on more than its arguments may show anywhere.
VALUES = ("value", "magnitude", "special values", "sizes", "strides", "arguments")


@dataclass(frozen=True)
class Planted:
    """A defect. `dtypes` are those that it is looked for in; `also` are properties that may fail with the named one.

    `file` is the module of this folder that declares the operator, and `kind` the class of defects it belongs to.
    `seen_in` are properties whose calls the named one needs, which reports what they see.
    """

    name: str
    file: str
    named: str
    defect: str
    also: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    seen_in: tuple[str, ...] = ()
    kind: str = "first"

    @property
    def is_registered(self) -> bool:
        """Whether the operator is registered by hand; opsmith registers what it defines. Nothing is loaded for that."""
        text = Path(__file__).with_name(f"{self.file}.py").read_text(encoding="utf-8")
        return re.search(rf"^@opsmith\.op\(.*\)\ndef {self.name}\(", text, re.MULTILINE) is None

    def subject(self, *, planted: bool, seed: int = 0) -> Subject:
        """Return the operator with the defect or without it, as it is checked."""
        found = module(self.file, planted)
        if isinstance(made := getattr(found, self.name, None), Operator):
            return subject_of(made, seed=seed)
        op, reference = found.OPERATORS[self.name]
        return subject_of(op, reference=reference, seed=seed)


def rows(file: str, kind: str, *listed: tuple[object, ...]) -> tuple[Planted, ...]:
    """Return the rows of a file, each (name, property, defect), with `also`, `dtypes`, `seen_in` where not usual."""
    made = (Planted(one[0], file, *one[1:]) for one in listed)  # type: ignore[arg-type]
    return tuple(replace(one, kind=kind) for one in made)
