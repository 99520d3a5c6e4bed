"""The options of `opsmith tune`, each declared once: name, type, default, help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from opsmith._keywords import Option, normalize, option
from opsmith.errors import ArgumentError

__all__ = ["Phase", "TuneOptions"]

Phase = Literal["forward", "backward"]


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """For which calls configurations are chosen. Raises ArgumentError for values that do not exist."""

    sizes: Iterable[Mapping[str, int]] = option(
        (),
        Option(
            "Sizes by the definition's names, such as M=8192 and N=4096 together; one or several are needed.",
            kind="sizes",
            flag="size",
            is_repeated=True,
        ),
    )
    dtypes: Iterable[str] | str = option(
        (),
        Option(
            "Dtypes: float32, ... A configuration is chosen for all of them together.",
            unset="float32 and bfloat16",
            kind="text",
            flag="dtype",
            is_repeated=True,
        ),
    )
    phase: Phase = option(
        "forward",
        Option("Whose kernel: the operator's or its backward's.", kind="text", choices=("forward", "backward")),
    )
    seconds: float = option(60.0, Option("Time limit, without the compiling.", kind="number"))
    seed: int = option(0, Option("Seed of the values.", kind="integer"))

    def __post_init__(self) -> None:
        normalize(self, sizes=tuple(dict(size) for size in self.sizes))
        if not self.sizes:
            raise ArgumentError("name the sizes to choose for: --size M=8192,N=1024 --size M=8192,N=4096")
        names = {frozenset(size) for size in self.sizes}
        if len(names) > 1:
            first, other = sorted(names, key=sorted)[:2]
            raise ArgumentError(f"give every --size the same names; {', '.join(sorted(first ^ other))} is not in all")
        if self.phase not in ("forward", "backward"):
            raise ArgumentError(f"phase is {self.phase!r}; it is forward or backward")
        if not self.seconds > 0:
            raise ArgumentError(f"seconds is {self.seconds}; give a positive number")
