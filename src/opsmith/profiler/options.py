"""The options of `opsmith.profile` and `opsmith profile`, each declared once: name, type, default, help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsmith._keywords import Option, names_in, normalize, option

if TYPE_CHECKING:
    import torch

__all__ = ["ProfileOptions"]


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """What is profiled. Raises ArgumentError for values that do not exist."""

    reference: Callable[..., Any] | None = option(
        None, Option("What the operator computes, in plain PyTorch.", kind="function", for_one=True)
    )
    examples: Callable[[], Iterable[Any]] | Iterable[Any] | None = option(
        None,
        Option(
            "Calls to profile instead of the definition's own, or a function that returns them: each a tuple of "
            "arguments or a dict by name, in a list or in a dict that names each call.",
            kind="function",
            for_one=True,
        ),
    )
    device: str | None = option(
        None,
        Option(
            "The device.",
            unset="cuda if there is a GPU and the operator has a kernel for it, otherwise cpu",
            kind="text",
            choices=("cpu", "cuda"),
        ),
    )
    dtype: str | torch.dtype | None = option(
        None,
        Option("The dtype: float32, ...", unset="float32 if the operator takes it", kind="text"),
    )
    sizes: Iterable[Mapping[str, int]] = option(
        (),
        Option(
            "Sizes by the definition's names, such as B=64 and N=4096 together.",
            unset="a small one and a large one",
            kind="sizes",
            flag="size",
            is_repeated=True,
        ),
    )
    phases: Iterable[str] | str = option(
        (),
        Option(
            "forward, recording (a forward that needs a gradient) or backward.",
            unset="all three",
            kind="text",
            flag="phase",
            metavar="PHASE",
            is_repeated=True,
        ),
    )
    trace: str | Path | None = option(
        None,
        Option(
            "Write a Chrome trace of some calls to this file, of the last phase at the largest size.",
            kind="file",
            for_one=True,
        ),
    )
    ncu: bool = option(True, Option("Run Nsight Compute on a GPU, if it is installed.", kind="switch"))
    seed: int = option(0, Option("The same seed gives the same inputs.", kind="integer"))

    def __post_init__(self) -> None:
        from opsmith.profiler.calls import PHASES
        from opsmith.subject.selection import dtype_names, phase_names

        normalize(
            self,
            phases=phase_names(names_in(self.phases), PHASES),
            dtype=None if self.dtype is None else dtype_names(self.dtype)[0],
            sizes=tuple(map(dict, self.sizes)),
            trace=None if self.trace is None else Path(self.trace),
        )
