"""The options of `opsmith.judge` and `opsmith judge`, each declared once: name, type, default, help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from opsmith._keywords import Option, names_in, normalize, option
from opsmith.errors import ArgumentError

__all__ = ["JudgeOptions"]

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """How a candidate is judged. Raises ArgumentError for values that do not exist."""

    examples: Callable[[], Iterable[Any]] | Iterable[Any] | None = option(
        None, Option("Calls that the task poses, where it is a function.", kind="function")
    )
    device: str | None = option(
        None, Option("The device.", unset="cuda if there is a GPU, otherwise cpu", kind="text", choices=_DEVICES)
    )
    seconds: float = option(90.0, Option("Time limit for one judgement.", kind="number"))
    call_seconds: float = option(
        20.0, Option("A call that takes longer hangs; the first may build for as long as loading.", kind="number")
    )
    load_seconds: float = option(60.0, Option("Time that the candidate has to be imported and built.", kind="number"))
    memory_gib: float = option(8.0, Option("Host memory that the candidate may have beside its inputs.", kind="number"))
    gpu_memory_gib: float | None = option(
        None,
        Option("GPU memory that the candidate may have beside its inputs.", unset="half of the GPU's", kind="number"),
    )
    against: Iterable[str] | str = option(
        (),
        Option(
            "Competitors besides eager: compiled, which is torch.compile of the reference.",
            unset="none",
            kind="text",
            choices=("compiled",),
            is_repeated=True,
        ),
    )
    threads: int | None = option(
        None, Option("PyTorch's threads on the CPU.", unset="PyTorch's setting", kind="integer", metavar="N")
    )
    seed: int | None = option(
        None, Option("The same seed gives the same inputs.", unset="one that nobody can guess", kind="integer")
    )
    time: bool = option(True, Option("Time the candidate after it is accepted.", kind="switch"))
    operator: bool = option(True, Option("Judge it as an operator, too.", kind="switch"))

    def __post_init__(self) -> None:
        for name in ("seconds", "call_seconds", "load_seconds", "memory_gib"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.gpu_memory_gib is not None and not self.gpu_memory_gib > 0:
            raise ArgumentError(f"gpu_memory_gib must be more than 0, not {self.gpu_memory_gib}")
        if self.device not in (None, *_DEVICES):
            raise ArgumentError(f"unknown device {self.device!r}; there are {' and '.join(_DEVICES)}")
        if self.threads is not None and self.threads < 1:
            raise ArgumentError(f"threads must be at least 1, not {self.threads}")
        normalize(self, against=names_in(self.against))
        if unknown := set(names_in(self.against)) - {"compiled"}:
            raise ArgumentError(f"unknown competitor {min(unknown)!r}; there is compiled")
