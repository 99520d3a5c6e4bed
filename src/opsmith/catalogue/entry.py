"""Defines an entry of the catalogue, and the facts that its sentences may name."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Entry", "Facts", "Group"]


@dataclass(frozen=True)
class Entry:
    """One known failure.

    `cause` and `remedy` are sentences with `{names}`: groups of the pattern, fields of Facts, and what lookup.py derives
    from those. A sentence that names something unknown is left out, so an entry says only what is known.
    """

    id: str
    title: str
    pattern: str  # a regular expression; ^ and $ are the ends of a line
    cause: tuple[str, ...]
    remedy: tuple[str, ...]
    example: str  # a line that the pattern is for, as a program printed it
    words: tuple[str, ...]  # texts of which each match has one in its last line; the pattern is tried only there
    lines: int = 1  # the most lines that a match spans
    needs: str = ""  # the fact without which the entry says nothing, and another one counts


@dataclass(frozen=True)
class Group:
    """Entries that one kind of program prints. Earlier entries come first where two fit a line."""

    title: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Facts:
    """What is known about the machine and the binary that a failure is about; None is unknown."""

    torch: str | None = None  # version of the torch that is here
    cuda_torch: str | None = None  # the same, where it is built for CUDA
    cpu_torch: str | None = None  # the same, where it is built for no GPU
    torch_cuda: str | None = None  # the CUDA that it is built for, such as 13.0
    needed_torch: str | None = None  # the first torch with what is missing, where this one is older
    built_torch: str | None = None  # the torch that the binary was built against
    built_with: str | None = None  # the compilers that it was built with
    python: str | None = None  # version of this Python, major and minor
    library: str | None = None  # the binary
    name: str | None = None  # the extension
    include_dirs: str | None = None  # its include folders
    nvcc: str | None = None  # version of the nvcc that is here
    gcc_limit: str | None = None  # the newest gcc that it accepts
    driver_cuda: str | None = None  # the newest CUDA that the driver knows

    def known(self) -> dict[str, str]:
        """Return the facts that are known, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
