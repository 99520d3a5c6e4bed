"""Whether the builds agree to the last bit: each library runs alone in a process, and the bytes are compared."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from opsmith.demo import worker
from opsmith.demo.builds import Build
from opsmith.demo.table import Table, mark
from opsmith.demo.worker import Case, run_cases
from opsmith.errors import LoadError

__all__ = ["Agreement", "Tally", "agreement_table", "compare", "compare_builds", "run_library"]

# What the operators that this process has loaded are called in the comparison.
THIS_PROCESS = "this process"

_MOST_DIFFERENCES = 3


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
    def is_total(self) -> bool:
        """Whether at least two libraries were compared, on something, and every bit was the same."""
        built = [name for name in self.participants if name != THIS_PROCESS]
        return len(built) > 1 and all(tally.numbers for tally in self.tallies) and not self.differences


def compare_builds(builds: Sequence[Build], cases: Sequence[Case], threads: int) -> Agreement:
    """Run the cases in every library, each in a process without opsmith, and in this one; compare all results.

    Raises LoadError where a process fails.
    """
    libraries = {build.builder: Path(build.library) for build in builds if build.left_out is None}
    with tempfile.TemporaryDirectory(prefix="opsmith-demo-") as folder, ExitStack() as stack:
        inputs = Path(folder) / "cases.pt"
        torch.save(list(cases), inputs)
        # All start at once: most of their time goes into `import torch`.
        runs = {
            name: (stack.enter_context(run_library(library, inputs, Path(folder) / name, threads)), Path(folder) / name)
            for name, library in libraries.items()
        }
        results = {name: _finish(libraries[name], process, file) for name, (process, file) in runs.items()}
    results[THIS_PROCESS] = run_cases(cases)
    return compare(results, cases)


def run_library(library: Path, cases: Path, results: Path, threads: int) -> subprocess.Popen[str]:
    """Start a process that runs saved cases in a library and saves what comes out."""
    argv = [sys.executable, worker.__file__, str(library), str(cases), str(results), str(threads)]
    # Without "safe path" Python would look for modules in the folder of worker.py first.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def compare(results: Mapping[str, Sequence[Sequence[Tensor]]], cases: Sequence[Case]) -> Agreement:
    """Compare the outputs of several libraries, bit by bit, with those of the first."""
    participants = tuple(results)
    counts: dict[str, list[int]] = {}
    differences: list[str] = []
    for index, case in enumerate(cases):
        count = counts.setdefault(case["operator"], [0, 0, 0])
        expected = results[participants[0]][index]
        count[0] += 1
        count[1] += sum(output.numel() for output in expected)
        for name in participants[1:]:
            differing = _differing(expected, results[name][index])
            if differing:
                count[2] += differing
                differences.append(f"{case['name']}: {name} differs from {participants[0]} in {differing} numbers")
    tallies = tuple(Tally(operator, *count) for operator, count in counts.items())
    return Agreement(participants, tallies, tuple(differences))


def agreement_table(agreement: Agreement) -> Table:
    """Return the comparison as a table."""
    rows = tuple(
        (
            tally.operator,
            f"{tally.calls:,}",
            f"{tally.numbers:,}",
            f"{tally.differing:,}",
            mark(tally.numbers > 0 and not tally.differing),
        )
        for tally in agreement.tallies
    )
    built = [name for name in agreement.participants if name != THIS_PROCESS]
    if len(built) > 1:
        note = (
            f"Compared bit by bit: {', '.join(built)}, each alone in a process that never imports opsmith, and the "
            "operators of this process. float16, bfloat16, float32 and float64; contiguous, transposed, strided and offset."
        )
    else:
        note = f"Only {', '.join(built)} could be built here, so there was nothing to compare it with."
    if agreement.differences:
        first = "; ".join(agreement.differences[:_MOST_DIFFERENCES])
        note += f" {len(agreement.differences):,} outputs differ, beginning with: {first}."
    return Table("Agreement", ("operator", "calls", "numbers", "differing", ""), "lrrrl", rows, note)


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


def _finish(library: Path, process: subprocess.Popen[str], results: Path) -> list[list[Tensor]]:
    output, _ = process.communicate()
    if process.returncode != 0:
        raise LoadError(f"{library} did not run on its own (exit status {process.returncode}):\n\n{output.strip()}")
    loaded: list[list[Tensor]] = torch.load(results, weights_only=True)
    return loaded
