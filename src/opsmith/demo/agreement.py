"""Compares the libraries bit by bit: each runs the same calls, alone in a process without opsmith."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from opsmith.demo import worker
from opsmith.demo.builds import Build
from opsmith.demo.worker import Call, run_calls
from opsmith.errors import LoadError
from opsmith.runtime.operator import Operator
from opsmith.spec.definition import Device
from opsmith.subject.subject import subject_of

__all__ = ["THIS_PROCESS", "Agreement", "Tally", "compare", "compare_builds", "make_calls"]

# What the operators that this process has loaded are called in the comparison.
THIS_PROCESS = "this process"

# Of the cases that the check makes: those that reach every path of a kernel.
_GROUPS = ("plain", "sizes", "empty", "layouts", "values", "special")
_QUICK_GROUPS = ("plain", "empty", "layouts")


@dataclass(frozen=True)
class Tally:
    """How an operator fared: calls, numbers compared in each library's outputs, and how many of them differ."""

    operator: str
    calls: int
    numbers: int
    differing: int


@dataclass(frozen=True)
class Agreement:
    """Who was compared with the first of them, on how much, and where they differ."""

    participants: tuple[str, ...]
    tallies: tuple[Tally, ...]
    differences: tuple[str, ...]

    @property
    def libraries(self) -> tuple[str, ...]:
        """The participants but for this process."""
        return tuple(name for name in self.participants if name != THIS_PROCESS)

    @property
    def is_total(self) -> bool:
        """Whether at least two libraries were compared, on something, and every bit was the same."""
        return len(self.libraries) > 1 and all(tally.numbers for tally in self.tallies) and not self.differences


def make_calls(operators: Sequence[Operator], devices: Sequence[Device], *, seed: int, quick: bool) -> Iterator[Call]:
    """Yield the calls for which all libraries must give equal results, in every element type: cases that a check makes.

    A backward operator gets results and inputs that do not belong together; its bits must still be the same.
    """
    for operator in operators:
        subject = subject_of(operator, devices=("cpu",), seed=seed)
        for dtypes in subject.dtypes:
            for case in subject.suite.cases(dtypes, *(_QUICK_GROUPS if quick else _GROUPS)):
                arguments = subject.arguments(case.build())
                for device in devices:
                    name = f"{operator.definition.name}, {', '.join(dtypes.values())}, {case.label}, {device}"
                    yield Call(
                        name=name, operator=operator.definition.qualified_name, device=device, arguments=arguments
                    )


def compare_builds(builds: Sequence[Build], calls: Sequence[Call], threads: int) -> Agreement:
    """Make the calls in every library, each in a process without opsmith, and in this one; compare all results.

    Raises LoadError if a process fails.
    """
    libraries = {build.builder: Path(build.library) for build in builds if build.left_out is None}
    with tempfile.TemporaryDirectory(prefix="opsmith-demo-") as name, ExitStack() as stack:
        folder = Path(name)
        torch.save(list(calls), folder / "calls.pt")
        # All start at once: most of their time goes into `import torch`.
        processes = {
            builder: stack.enter_context(_start(library, folder / "calls.pt", folder / builder, threads))
            for builder, library in libraries.items()
        }
        results = {
            builder: _finish(libraries[builder], process, folder / builder) for builder, process in processes.items()
        }
    results[THIS_PROCESS] = run_calls(calls)
    return compare(results, calls)


def compare(results: Mapping[str, Sequence[Sequence[Tensor]]], calls: Sequence[Call]) -> Agreement:
    """Compare the outputs of several libraries, bit by bit, with those of the first."""
    first, *others = results
    counts: dict[str, list[int]] = {}
    differences: list[str] = []
    for index, call in enumerate(calls):
        count = counts.setdefault(call["operator"], [0, 0, 0])
        expected = results[first][index]
        count[0] += 1
        count[1] += sum(output.numel() for output in expected)
        for name in others:
            if differing := _differing(expected, results[name][index]):
                count[2] += differing
                differences.append(f"{call['name']}: {name} differs from {first} in {differing} numbers")
    tallies = tuple(Tally(operator, *count) for operator, count in counts.items())
    return Agreement(tuple(results), tallies, tuple(differences))


def _differing(expected: Sequence[Tensor], found: Sequence[Tensor]) -> int:
    """Return how many numbers differ in any bit; an output of another type or shape differs altogether."""
    if len(expected) != len(found):
        return max(1, sum(output.numel() for output in expected))
    total = 0
    for one, other in zip(expected, found, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            total += max(1, one.numel())
        else:
            total += int((_bits(one) != _bits(other)).any(dim=1).sum())
    return total


def _bits(tensor: Tensor) -> Tensor:
    """Return the bytes of each number as a row: -0.0 is not 0.0 then, and a NaN is equal to itself."""
    return tensor.contiguous().view(-1, 1).view(torch.uint8)


def _start(library: Path, calls: Path, results: Path, threads: int) -> subprocess.Popen[str]:
    argv = [sys.executable, worker.__file__, str(library), str(calls), str(results), str(threads)]
    # Without "safe path" Python would look for modules in the folder of worker.py first.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _finish(library: Path, process: subprocess.Popen[str], results: Path) -> list[list[Tensor]]:
    output, _ = process.communicate()
    if process.returncode != 0:
        raise LoadError(f"{library} did not run on its own (exit status {process.returncode}):\n\n{output.strip()}")
    loaded: list[list[Tensor]] = torch.load(results, weights_only=True)
    return loaded
