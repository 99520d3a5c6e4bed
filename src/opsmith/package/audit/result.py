"""Defines the result of an audit: facts, floors and findings, and the verdict that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opsmith._drawing import text_of
from opsmith.package.audit.compare import Change
from opsmith.package.audit.facts import Facts, Library
from opsmith.package.audit.finding import Finding
from opsmith.package.audit.floors import Floors
from opsmith.package.audit.migrate.use import SymbolUse

__all__ = ["Audit"]


@dataclass(frozen=True)
class Audit:
    """What an audit has found. `changes` are those since the release that it was compared with, `uses` those of `why`."""

    facts: Facts
    floors: Floors
    findings: tuple[Finding, ...]
    against: str = ""
    changes: tuple[Change, ...] = ()
    uses: tuple[SymbolUse, ...] = ()

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is false or broken."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is worth knowing."""
        return tuple(finding for finding in self.findings if finding.severity == "note")

    @property
    def is_sound(self) -> bool:
        """Whether no claim of the file is false, and nothing in it is broken."""
        return not self.faults

    def names(self) -> frozenset[str]:
        """Return the names of all findings."""
        return frozenset(finding.name for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the result as what `json.dumps` takes."""
        floors = self.floors
        return {
            "file": self.facts.file_name,
            "size_bytes": self.facts.size,
            "sound": self.is_sound,
            "floors": {
                "torch": floors.torch,
                "torch_because": floors.torch_because,
                "torch_is_exact": floors.torch_is_exact,
                "python": floors.python,
                "python_because": floors.python_because,
                "python_is_exact": floors.python_is_exact,
                "glibc": floors.glibc,
                "glibc_because": floors.glibc_because,
                "platform": floors.platform,
                "cuda": floors.cuda,
                "rocm": floors.rocm,
                "driver": None if floors.driver is None else vars(floors.driver),
            },
            "libraries": [_library(library) for library in self.facts.libraries],
            "findings": [vars(finding) for finding in self.findings],
            "against": self.against,
            "changes": [vars(change) for change in self.changes],
            "unstable": [vars(use) for use in self.uses],
        }

    def __str__(self) -> str:
        return text_of(self)


def _library(library: Library) -> dict[str, Any]:
    needs, elf = library.needs, library.elf
    return {
        "path": library.path,
        "machine": elf.machine,
        "sha256": library.sha256,
        "needed": elf.needed,
        "rpath": elf.rpath,
        "runpath": elf.runpath,
        "stripped": elf.is_stripped,
        "debug_info": elf.has_debug_info,
        "sizes": vars(library.sizes),
        "symbols": vars(needs),
        "exported": sorted(symbol.name for symbol in elf.symbols if symbol.is_defined and not symbol.is_weak),
        "cuda": [str(arch) for arch in library.cuda],
        "amd": library.amd,
        "namespaces": library.namespaces,
        "fragments": library.fragments,
        "schemas": [f"{schema.qualified}: {schema.text}" for schema in library.schemas],
        "build_paths": library.paths,
    }
