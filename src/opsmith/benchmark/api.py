"""Times operators from Python: `opsmith.bench(op)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from opsmith.benchmark.conditions import nothing_in_background
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.result import BenchReport
from opsmith.benchmark.run import refuse_wrong, run_bench
from opsmith.errors import ArgumentError
from opsmith.subject.subject import Subject, subject_of
from opsmith.subject.verb import verb

__all__ = ["BenchReports", "HasSubject", "bench", "bench_subject"]


class HasSubject(Protocol):
    """What the options of bench and profile say about the operator and its calls."""

    @property
    def reference(self) -> Callable[..., Any] | None: ...  # noqa: D102
    @property
    def examples(self) -> Callable[[], Iterable[Any]] | Iterable[Any] | None: ...  # noqa: D102
    @property
    def device(self) -> str | None: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102


class BenchReports(tuple[BenchReport, ...]):
    """The reports of several operators, and their overall result."""

    __slots__ = ()

    @property
    def ok(self) -> bool:
        """Whether no result and no figure was wrong in any of them."""
        return all(report.ok for report in self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


@verb(BenchOptions, BenchReport, BenchReports)
def bench(operators: Sequence[Any], options: BenchOptions) -> Iterator[BenchReport]:
    """Time an operator against its reference, the compiler and the machine's limit, and return the times.

    `op` is what `opsmith.check` takes: an operator of opsmith's, one of `torch.ops`, or any function with `reference=`,
    the same in plain PyTorch. A module stands for the operators that it declares, and a list for its items;
    BenchReports come back for those.

    Nothing is raised for a competitor that fails: its timing says why. Raises ArgumentError for names that do not
    exist, and where there is nothing to compare with or to call with, and BuildError if the operator cannot be
    built.
    """
    subjects = [bench_subject(op, options) for op in operators]
    for subject, device in subjects:
        refuse_wrong(subject, device, options)
    for subject, device in subjects:
        yield run_bench(subject, device, options)


# `opsmith.bench.BenchReport`, from when opsmith.bench was a package; deprecated (see opsmith._former_package).
vars(bench).update(BenchReport=BenchReport, BenchReports=BenchReports)


def bench_subject(op: Any, options: HasSubject) -> tuple[Subject, str]:
    """Return what is timed and where: by default on the GPU where there is one and the operator has a kernel for it.

    Examples that are given replace the definition's. Raises ArgumentError for a device that is not here.
    """
    with nothing_in_background():
        subject = subject_of(
            op, only_given=True, reference=options.reference, examples=options.examples, seed=options.seed
        )
    device = options.device or ("cuda" if "cuda" in subject.devices else "cpu")
    if device not in subject.devices:
        here = ", ".join(subject.devices)
        raise ArgumentError(f"{subject.name} cannot be timed on {device}; it and this machine have {here}")
    return replace(subject, devices=(device,)), device
