"""The options of `opsmith.check` and `opsmith check`, each declared once: name, type, default, help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opsmith._keywords import Option, names_in, normalize, option
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    import torch

__all__ = ["CheckOptions"]


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """What is checked, and how thoroughly. Raises ArgumentError for values that do not exist."""

    reference: Callable[..., Any] | None = option(
        None,
        Option("What the operator should compute, in plain PyTorch.", kind="function", for_one=True),
    )
    examples: Callable[[], Iterable[Any]] | Iterable[Any] | None = option(
        None,
        Option(
            "Calls to make besides the generated ones, or a function that returns them: each a tuple of arguments or a "
            "dict by name, in a list or in a dict that names each call.",
            kind="function",
            for_one=True,
        ),
    )
    devices: Iterable[str] | str | None = option(
        None, Option("cpu or cuda.", unset="all available", kind="text", flag="device", is_repeated=True)
    )
    dtypes: Iterable[str | torch.dtype] | str | torch.dtype | None = option(
        None,
        Option(
            "Dtypes: float32, ...",
            unset="all that the operator supports",
            kind="text",
            flag="dtype",
            is_repeated=True,
        ),
    )
    properties: Iterable[str] | str | None = option(
        None,
        Option(
            "Properties by name, such as gradient; a wrong name is answered with all of them.",
            unset="all",
            kind="text",
            flag="property",
            is_repeated=True,
        ),
    )
    seed: int = option(0, Option("The same seed gives the same inputs.", kind="integer"))
    seconds: float | None = option(
        None,
        Option(
            "Time limit for one operator. The report lists what does not fit.",
            unset="about half a minute",
            kind="number",
        ),
    )
    thorough: bool = option(False, Option("Try all inputs, without a time limit.", kind="switch"))
    large: bool = option(False, Option("Also try tensors of more than 2^31 elements.", kind="switch"))

    def __post_init__(self) -> None:
        from opsmith.subject.selection import dtype_names

        if self.seconds is not None and not self.seconds > 0:
            raise ArgumentError(f"seconds must be more than 0, not {self.seconds}")
        normalize(
            self,
            devices=names_in(self.devices) or None,
            dtypes=dtype_names(self.dtypes),
            properties=names_in(self.properties),
            seed=self.seed or 0,
        )
