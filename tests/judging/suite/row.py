"""One row of the suite: a candidate as text, the task that it claims to solve, and what the judge has to say of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import dedent

from opsmith.judging.refusals import Refusal

__all__ = ["CPU", "CUDA", "NATIVE", "TRITON", "Row", "cheat", "honest", "rows_by_name"]

# What a candidate needs to run: nothing but PyTorch, a C++ compiler, a GPU with nvcc, a GPU with Triton.
CPU, NATIVE, CUDA, TRITON = "cpu", "native", "cuda", "triton"


@dataclass(frozen=True)
class Row:
    """A candidate.

    `task` is a file or folder of `tasks/`. `refused` are the names of refusals that are right, the first the usual one;
    empty for an honest candidate. `signs` have to stand beside the verdict. `ways` are numbers of `ways.WAYS`.
    """

    name: str
    task: str
    text: str
    needs: str
    refused: tuple[Refusal, ...] = ()
    signs: tuple[str, ...] = ()
    ways: tuple[int, ...] = ()

    @property
    def is_cheat(self) -> bool:
        """Whether it has to be refused, or at least to be told what it is."""
        return bool(self.refused or self.ways)

    @property
    def needs_gpu(self) -> bool:
        """Whether it runs on a GPU alone."""
        return self.needs in (CUDA, TRITON)


def cheat(
    name: str,
    task: str,
    text: str,
    *refused: Refusal,
    needs: str = CPU,
    ways: tuple[int, ...] = (),
    signs: tuple[str, ...] = (),
) -> Row:
    """Return the row of a candidate that is to be refused by one of these names."""
    return Row(name, task, _text(text), needs, refused, signs, ways)


def honest(name: str, task: str, text: str, needs: str = CPU, signs: tuple[str, ...] = ()) -> Row:
    """Return the row of a candidate that is not to be refused."""
    return Row(name, task, _text(text), needs, (), signs)


def rows_by_name(*tables: Iterable[Row]) -> dict[str, Row]:
    """Return rows by name; a name that is there twice is a mistake."""
    found: dict[str, Row] = {}
    for row in (row for table in tables for row in table):
        if row.name in found:
            raise ValueError(f"two rows are called {row.name}")
        found[row.name] = row
    return found


def _text(text: str) -> str:
    return dedent(text).strip() + "\n"
