"""`opsmith.bench(op)`: time one operator, or several, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, overload

import torch

from opsmith.benchmark.competitors import PHASES, Phase
from opsmith.benchmark.conditions import nothing_in_background
from opsmith.benchmark.result import BenchReport
from opsmith.benchmark.run import BenchOptions, refuse_wrong, run_bench
from opsmith.errors import ArgumentError
from opsmith.subject.selection import dtype_names, several_operators
from opsmith.subject.subject import Subject, subject_of

__all__ = ["BenchReports", "bench", "bench_options", "bench_subject"]

_Examples = Callable[[], Iterable[Any]] | Iterable[Any] | None


class BenchReports(tuple[BenchReport, ...]):
    """The reports of several operators, with what they come to."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether no result and no figure was wrong in any of them."""
        return all(report.ok for report in self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


@overload
def bench(
    op: ModuleType | list[Any] | tuple[Any, ...],
    *,
    device: str | None = None,
    dtypes: Iterable[str | torch.dtype] = (),
    sizes: Iterable[Mapping[str, int]] = (),
    phases: Iterable[str] = (),
    against: Iterable[str] = (),
    seconds: float = 60.0,
    seed: int = 0,
    threads: int | None = None,
) -> BenchReports: ...
@overload
def bench(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: _Examples = None,
    device: str | None = None,
    dtypes: Iterable[str | torch.dtype] = (),
    sizes: Iterable[Mapping[str, int]] = (),
    phases: Iterable[str] = (),
    against: Iterable[str] = (),
    seconds: float = 60.0,
    seed: int = 0,
    threads: int | None = None,
) -> BenchReport: ...
def bench(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    examples: _Examples = None,
    device: str | None = None,
    dtypes: Iterable[str | torch.dtype] = (),
    sizes: Iterable[Mapping[str, int]] = (),
    phases: Iterable[str] = (),
    against: Iterable[str] = (),
    seconds: float = 60.0,
    seed: int = 0,
    threads: int | None = None,
) -> BenchReport | BenchReports:
    """Time an operator against its reference, the compiler and the machine's limit, and return what was found.

    `op` is what `opsmith.check` takes: an operator of opsmith's, one of `torch.ops`, or any function with `reference=`, the
    same in plain PyTorch. A module stands for the operators that it declares, and a list for its items; BenchReports come
    back for those. `examples` are calls to time, in place of the definition's own: tuples of arguments or dicts by name,
    in a list or in a dict that names each call.

    `device` is "cuda" where there is a GPU and the operator has a kernel for it, else "cpu". `dtypes` are float32 by
    default, and bfloat16 too on a GPU. `sizes` are mappings from the definition's names to sizes, `{"B": 64, "N": 4096}`;
    without them three are chosen. `phases` are "forward", "backward" and "both" (the two together). `against` are the
    competitors besides eager: "compiled", "reduce-overhead", "max-autotune", "graph" and "eager graph" (replayed CUDA
    graphs) and what `@op.versus` names; by default those that fit into the time. `seconds` is how long one operator may
    take. The same `seed` gives the same inputs and the same order. `threads` are PyTorch's on the CPU, by default as many
    as it has.

    Nothing is raised for a competitor that fails: its timing says why. Raises ArgumentError for names that do not exist,
    and where there is nothing to compare with or to call with, and BuildError where the operator cannot be built.
    """
    options = bench_options(
        phases=phases,
        against=against,
        dtypes=dtypes,
        sizes=sizes,
        seconds=seconds,
        seed=seed,
        threads=threads,
    )
    several = several_operators(op)
    if several is None:
        return run_bench(*bench_subject(op, device, reference=reference, examples=examples, seed=seed), options)
    if reference is not None or examples is not None:
        raise ArgumentError("reference= and examples= belong to one operator; time several one by one")
    subjects = [bench_subject(one, device, seed=seed) for one in several]
    for subject, where in subjects:
        refuse_wrong(subject, where, options)
    return BenchReports(run_bench(subject, where, options) for subject, where in subjects)


# `opsmith.bench.BenchReport`, from when opsmith.bench was a package; deprecated (see opsmith._former_package).
vars(bench).update(BenchReport=BenchReport, BenchReports=BenchReports)


def bench_subject(op: Any, device: str | None = None, **said: Any) -> tuple[Subject, str]:
    """Return what is timed and where: by default on the GPU where there is one and the operator has something for it.

    `said` is what `subject_of` takes besides; examples that are given are timed in place of the definition's. Raises
    ArgumentError for a device that is not here.
    """
    with nothing_in_background():
        subject = subject_of(op, only_given=True, **said)
    where = device or ("cuda" if "cuda" in subject.devices else "cpu")
    if where not in subject.devices:
        here = ", ".join(subject.devices)
        raise ArgumentError(f"{subject.name} cannot be timed on {where}: what it has, and this machine, is {here}")
    return replace(subject, devices=(where,)), where


def bench_options(
    *,
    phases: Iterable[str] = (),
    against: Iterable[str] = (),
    dtypes: Iterable[str | torch.dtype] = (),
    sizes: Iterable[Mapping[str, int]] = (),
    seconds: float = 60.0,
    seed: int = 0,
    threads: int | None = None,
) -> BenchOptions:
    """Return the options of a benchmark; raises ArgumentError for a phase or an element type that does not exist."""
    wanted = _names(phases)
    if unknown := [name for name in wanted if name not in PHASES]:
        raise ArgumentError(f"there is no phase {unknown[0]!r}; there are {', '.join(PHASES)}")
    if not seconds > 0:
        raise ArgumentError(f"a benchmark of {seconds} seconds measures nothing; give more than 0")
    chosen: tuple[Phase, ...] = tuple(phase for phase in PHASES if not wanted or phase in wanted)
    if threads is not None and threads < 1:
        raise ArgumentError(f"PyTorch cannot have {threads} threads; give 1 or more")
    return BenchOptions(
        chosen,
        _names(against),
        dtype_names(_names(dtypes)),
        tuple(map(dict, sizes)),
        seconds,
        seed=seed,
        threads=threads,
    )


def _names(given: Iterable[Any] | str) -> tuple[Any, ...]:
    """Return what was given as a tuple; one text is one name, and not its letters."""
    return (given,) if isinstance(given, str | torch.dtype) else tuple(given)
