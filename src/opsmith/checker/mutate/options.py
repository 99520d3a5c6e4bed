"""The options of `opsmith.mutate` and `opsmith check --mutate`, each declared once: name, type, default, help."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsmith._keywords import Option, names_in, normalize, option
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    import torch

__all__ = ["MutateOptions"]


@dataclass(frozen=True, kw_only=True)
class MutateOptions:
    """What is mutated, and how thoroughly. Raises ArgumentError for values that do not exist."""

    mutants: int | None = option(
        40, Option("How many mutants to plant, spread over kinds and lines; None plants all that there are.")
    )
    headers: bool = option(
        False, Option("Also plant mutants into the headers of yours that the kernels include.", kind="switch")
    )
    device: str = option("cpu", Option("Whose kernels are mutated: cpu or cuda."))
    dtypes: Iterable[str | torch.dtype] | str | torch.dtype | None = option(
        None, Option("Dtypes that mutants are checked in.", unset="all that the operator supports")
    )
    properties: Iterable[str] | str | None = option(
        None, Option("Properties that mutants are checked for.", unset="all in which a kernel's fault can show")
    )
    seed: int = option(0, Option("The same seed chooses the same mutants, and gives their checks the same inputs."))
    seconds: float | None = option(
        None, Option("Time limit for one operator. Mutants that do not fit are not tried.", unset="no limit")
    )

    def __post_init__(self) -> None:
        from opsmith.checker.properties.table import chosen
        from opsmith.subject.selection import dtype_names

        if self.mutants is not None and self.mutants < 1:
            raise ArgumentError(f"mutants must be 1 or more, not {self.mutants}")
        if self.seconds is not None and not self.seconds > 0:
            raise ArgumentError(f"seconds must be more than 0, not {self.seconds}")
        if self.device not in ("cpu", "cuda"):
            raise ArgumentError(f"device must be cpu or cuda, not {self.device}")
        chosen(names_in(self.properties))
        normalize(self, dtypes=dtype_names(self.dtypes), properties=names_in(self.properties))
