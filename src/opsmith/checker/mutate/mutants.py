"""Finds the mutants of an operator: single faults in the functions that its kernels call, none of them twice."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsmith.checker.mutate.functions import reached_from
from opsmith.checker.mutate.kinds import KINDS
from opsmith.checker.mutate.source import Source
from opsmith.runtime.operator import Operator
from opsmith.spec.definition import Definition, Device, Kernel

__all__ = ["Mutant", "find_mutants", "kernels_of", "sampled"]


@dataclass(frozen=True)
class Mutant:
    """One fault: the text of `file` from `start` to before `end` becomes `after`. `line` counts from 1."""

    kind: str
    file: Path
    line: int
    start: int
    end: int
    after: str
    function: str
    before_line: str
    after_line: str

    def applied(self, text: str) -> str:
        """Return the text of its file with the fault in it."""
        return text[: self.start] + self.after + text[self.end :]


def kernels_of(operator: Operator, device: Device) -> tuple[Kernel, ...]:
    """Return the kernels that a check of an operator calls on a device: its own, and those of its gradients."""
    found: list[Kernel] = []
    definition: Definition | None = operator.definition
    # The gradient of a gradient may be the operator again, and the check goes no deeper than second gradients.
    for _ in range(3):
        if definition is not None:
            found += [kernel for name, kernel in definition.kernels.items() if name == device and kernel not in found]
            definition = definition.backward
    return tuple(found)


def find_mutants(kernels: Sequence[Kernel], files: Mapping[Path, str], mutable: Iterable[Path]) -> list[Mutant]:
    """Return the mutants of kernels, in the order of their files and lines.

    `files` are the texts of the kernels' sources and of the headers that they include; `mutable` are those to plant
    faults in. Where a kernel's function is not found, all functions of its first source count.
    """
    sources = {str(file): Source(text) for file, text in files.items()}
    entries = {kernel.entry.rpartition("::")[2] for kernel in kernels}
    reached = reached_from(
        entries,
        {name: (source.tokens, source.bodies) for name, source in sources.items()},
        {name: source.without_result for name, source in sources.items()},
    )
    names = {sources[file].bodies[index].name for file, index in reached}
    for kernel in kernels:
        if kernel.entry.rpartition("::")[2] not in names and str(kernel.sources[0]) in sources:
            bodies = sources[str(kernel.sources[0])].bodies
            reached |= {(str(kernel.sources[0]), index) for index in range(len(bodies))}
    found: dict[tuple[Path, int, int, str], Mutant] = {}
    for file in dict.fromkeys(mutable):
        source = sources[str(file)]
        for index, body in enumerate(source.bodies):
            if (str(file), index) in reached:
                for kind in KINDS:
                    for edit in kind.find(source, body):
                        mutant = _mutant(kind.name, file, source, body.name, edit.begin, edit.end, edit.after)
                        found.setdefault((file, mutant.start, mutant.end, mutant.after), mutant)
    return sorted(found.values(), key=lambda mutant: (str(mutant.file), mutant.start, mutant.end, mutant.after))


def _mutant(kind: str, file: Path, source: Source, function: str, begin: int, end: int, after: str) -> Mutant:
    start, stop = source.tokens[begin].start, source.tokens[end - 1].end
    text, line = source.text, source.tokens[begin].line
    left, right = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
    right = len(text) if right < 0 else right
    before, changed = text[left:right], f"{text[left:start]}{after}{text[stop:right]}"
    return Mutant(kind, file, line, start, stop, after, function, before, changed)


def sampled(mutants: Sequence[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """Return so many mutants, or all: the kinds take turns, and within a kind the lines that have none yet come first."""
    if count is None or count >= len(mutants):
        return list(mutants)
    draw = random.Random(seed)
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in draw.sample(list(mutants), len(mutants)):
        by_kind.setdefault(mutant.kind, []).append(mutant)
    chosen: list[Mutant] = []
    lines: dict[tuple[Path, int], int] = {}
    while len(chosen) < count:
        for left in by_kind.values():
            if left and len(chosen) < count:
                mutant = min(left, key=lambda one: lines.get((one.file, one.line), 0))
                left.remove(mutant)
                chosen.append(mutant)
                lines[mutant.file, mutant.line] = lines.get((mutant.file, mutant.line), 0) + 1
    return sorted(chosen, key=lambda mutant: (str(mutant.file), mutant.start, mutant.end, mutant.after))
