"""Times the contenders at each of some sizes, as `opsmith bench` times competitors: in turns, and their results compared."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from opsmith.benchmark.competitors import Competitor
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.result import BenchReport, Timing
from opsmith.benchmark.run import run_bench
from opsmith.errors import ArgumentError
from opsmith.runtime.operator import Operator
from opsmith.subject.subject import Subject
from opsmith.tuning.contenders import Contender, build, contenders_of, launch_of
from opsmith.tuning.decide import Point, Region, divide
from opsmith.tuning.options import Phase, TuneOptions

__all__ = ["Measured", "Tuned", "tune"]


@dataclass(frozen=True)
class Measured:
    """What was measured at one size: seconds by contender and type, what was wrong, and the operator's own seconds."""

    sizes: Mapping[str, int]
    seconds: Mapping[int, Mapping[str, float]]
    errors: Mapping[int, str]
    own: Mapping[str, float]

    @property
    def point(self) -> Point:
        """The geometric mean over the types, of those contenders that have a time in each."""
        types = {dtype for each in self.seconds.values() for dtype in each}
        return Point(
            self.sizes,
            {
                number: statistics.geometric_mean(each.values())
                for number, each in self.seconds.items()
                if each.keys() == types and number not in self.errors
            },
        )


@dataclass(frozen=True)
class Tuned:
    """The configurations of one kernel, what they take, and where each is best."""

    operator: str
    phase: Phase
    contenders: tuple[Contender, ...]
    measured: tuple[Measured, ...]
    regions: tuple[Region, ...]
    machine: str
    torch: str

    @property
    def never_chosen(self) -> tuple[Contender, ...]:
        """The contenders that are best nowhere."""
        chosen = {region.choice for region in self.regions}
        return tuple(contender for contender in self.contenders if contender.number not in chosen)

    def choice(self, sizes: Mapping[str, int]) -> int | None:
        """Return the number of the contender for some sizes."""
        return next((region.choice for region in self.regions if region.holds(sizes)), None)


def tune(subject: Subject, options: TuneOptions, tell: Callable[[str], None] = lambda _: None) -> Tuned:
    """Build, time and choose.

    Raises ArgumentError where there is nothing to choose from or nothing works, and BuildError if a kernel cannot be
    built.
    """
    if subject.operator is None:
        raise ArgumentError(f"{subject.name} is not an operator of opsmith's")
    definition = subject.operator.definition
    phase, sizes = options.phase, tuple(options.sizes)
    contenders = contenders_of(launch_of(definition, phase))
    fitting = [[each for each in contenders if each.fits(size)] for size in sizes]
    if lost := [size for size, those in zip(sizes, fitting, strict=True) if not those]:
        raise ArgumentError(f"no configuration of {definition.name} is for {_shown(lost[0])}")
    needed = tuple(each for each in contenders if any(each in those for those in fitting))
    tell(f"building {len(needed)} configurations")
    operators = dict(zip((each.number for each in needed), build(definition, phase, needed), strict=True))
    measured = []
    for index, (size, those) in enumerate(zip(sizes, fitting, strict=True)):
        tell(f"timing {len(those)} configurations at {_shown(size)}, {index + 1} of {len(sizes)}")
        report = _timed(subject, options, size, {each.number: operators[each.number] for each in those})
        measured.append(_read(report, size, those))
    regions = divide([each.point for each in measured])
    if not regions:
        why = next((text for each in measured for text in each.errors.values()), "nothing was timed")
        raise ArgumentError(f"no configuration of {definition.name} gives right results: {why}")
    return Tuned(
        definition.qualified_name, phase, contenders, tuple(measured), tuple(regions), report.machine.name, _torch()
    )


def _timed(
    subject: Subject, options: TuneOptions, size: Mapping[str, int], operators: Mapping[int, Operator]
) -> BenchReport:
    phases = (options.phase,)
    extra = tuple(Competitor(str(number), operator, phases=phases) for number, operator in operators.items())
    bench = BenchOptions(
        device="cuda", sizes=[size], dtypes=options.dtypes, phases=phases, against=("eager",), seed=options.seed,
        seconds=options.seconds / len(tuple(options.sizes)),
    )  # fmt: skip
    return run_bench(subject, "cuda", bench, extra=extra)


def _read(report: BenchReport, size: Mapping[str, int], those: Sequence[Contender]) -> Measured:
    seconds: dict[int, dict[str, float]] = {}
    errors: dict[int, str] = {}
    by_name: dict[str, list[Timing]] = {}
    for timing in report.timings:
        by_name.setdefault(timing.competitor, []).append(timing)
    for each in those:
        for timing in by_name.get(str(each.number), ()):
            if timing.error or timing.time is None:
                errors.setdefault(each.number, timing.error or "not timed")
            else:
                seconds.setdefault(each.number, {})[timing.dtype] = timing.time.middle
    own = {timing.dtype: timing.time.middle for timing in report.timings if timing.is_own and timing.time is not None}
    return Measured(size, seconds, errors, own)


def _shown(size: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in size.items())


def _torch() -> str:
    import torch

    return torch.__version__
