"""The options of `opsmith.bench` and `opsmith bench`, each declared once: name, type, default, help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opsmith._keywords import Option, names_in, normalize, option
from opsmith.errors import ArgumentError

if TYPE_CHECKING:
    import torch

__all__ = ["BenchOptions"]


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is timed, against what, and for how long. Raises ArgumentError for values that do not exist."""

    reference: Callable[..., Any] | None = option(
        None, Option("What the operator computes, in plain PyTorch.", kind="function", for_one=True)
    )
    examples: Callable[[], Iterable[Any]] | Iterable[Any] | None = option(
        None,
        Option(
            "Calls to time instead of the definition's own, or a function that returns them: each a tuple of arguments "
            "or a dict by name, in a list or in a dict that names each call.",
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
    dtypes: Iterable[str | torch.dtype] | str | torch.dtype = option(
        (),
        Option(
            "Dtypes: float32, ...",
            unset="float32, on a GPU bfloat16 too",
            kind="text",
            flag="dtype",
            is_repeated=True,
        ),
    )
    sizes: Iterable[Mapping[str, int]] = option(
        (),
        Option(
            "Sizes by the definition's names, such as B=64 and N=4096 together.",
            unset="three sizes",
            kind="sizes",
            flag="size",
            is_repeated=True,
        ),
    )
    phases: Iterable[str] | str = option(
        (),
        Option(
            "forward, backward, or both together.",
            unset="all three",
            kind="text",
            flag="phase",
            metavar="PHASE",
            is_repeated=True,
        ),
    )
    against: Iterable[str] | str = option(
        (),
        Option(
            "Competitors besides eager: compiled, reduce-overhead, max-autotune, graph, eager graph (replayed CUDA "
            "graphs), and the names given to @op.versus.",
            unset="those that fit into the time",
            kind="text",
            metavar="NAME",
            is_repeated=True,
        ),
    )
    seconds: float = option(60.0, Option("Time limit for one operator.", kind="number"))
    seed: int = option(0, Option("The same seed gives the same inputs and the same order.", kind="integer"))
    threads: int | None = option(
        None, Option("PyTorch's threads on the CPU.", unset="PyTorch's setting", kind="integer", metavar="N")
    )

    def __post_init__(self) -> None:
        from opsmith.benchmark.competitors import PHASES
        from opsmith.subject.selection import dtype_names, phase_names

        if not self.seconds > 0:
            raise ArgumentError(f"seconds must be more than 0, not {self.seconds}")
        if self.threads is not None and self.threads < 1:
            raise ArgumentError(f"threads must be at least 1, not {self.threads}")
        normalize(
            self,
            phases=phase_names(names_in(self.phases), PHASES),
            against=names_in(self.against),
            dtypes=dtype_names(self.dtypes),
            sizes=tuple(map(dict, self.sizes)),
        )
