"""Audits a wheel or a shared library: reads it, judges it, and compares it with the last release."""

from __future__ import annotations

import errno
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from opsmith.errors import AuditError
from opsmith.package.audit.compare import Change, compare_schemas
from opsmith.package.audit.elf import MAGIC
from opsmith.package.audit.facts import Facts, Library
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.floors import find_floors
from opsmith.package.audit.judge import judge
from opsmith.package.audit.library import describe_library, registers_in_cpp
from opsmith.package.audit.migrate.use import SymbolUse
from opsmith.package.audit.migrate.why import explain_uses
from opsmith.package.audit.result import Audit
from opsmith.package.audit.wheel import read_wheel

__all__ = ["audit", "read_facts"]

_UNREADABLE = "download or build it again"


def audit(
    path: str | Path,
    *,
    against: str | Path | None = None,
    archs: tuple[str, ...] = (),
    cuda: str | None = None,
    why: bool = False,
    sources: str | Path | None = None,
) -> Audit:
    """Audit a wheel (FILE.whl) or a shared library (FILE.so, FILE.so.1).

    `against` is the release before, a wheel or a library, whose operators' schemas are compared. `archs` are the GPU
    architectures that the file must have code for, such as "9.0", "9.0+PTX" and "gfx90a". `cuda` ("12") is the oldest CUDA
    whose torch and driver it must work with. `why` explains every symbol of torch's C++ API; `sources` is a folder in which
    their uses are looked for.

    A file that is damaged is not an exception but a fault. Raises OSError if a file is missing or may not be read, and
    ToolchainError for an architecture that does not exist.
    """
    path = Path(path)
    facts = read_facts(path)
    findings = list(judge(facts, archs, cuda))
    changes: tuple[Change, ...] = ()
    if against is not None:
        before = read_facts(Path(against))
        changes = _known(before, facts, compare_schemas(before.schemas, facts.schemas))
        findings += _compared(before, facts, changes)
    uses = tuple(_explained(path, facts, sources)) if why or sources is not None else ()
    return Audit(
        facts,
        find_floors(facts.libraries),
        tuple(findings),
        against="" if against is None else Path(against).name,
        changes=changes,
        uses=uses,
    )


def read_facts(path: Path) -> Facts:
    """Return the facts about a file; one that cannot be read has a fault in place of them. Raises OSError."""
    size = path.stat().st_size
    if not path.is_file():
        raise OSError(errno.EINVAL, "is not a file that can be audited", str(path))
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if path.suffix == ".whl":
            return read_wheel(path)
        if start == MAGIC:
            return _read_library(path)
        raise AuditError("it is neither a wheel (FILE.whl) nor a shared library of Linux")
    except AuditError as error:
        problem = fault("unreadable", f"{path.name} cannot be read", detail=str(error), remedy=_UNREADABLE)
        return Facts(path.name, size, (), None, (problem,))


def _read_library(path: Path) -> Facts:
    import mmap

    from opsmith.store import Manifest

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        library = describe_library(path.name, data)
    for beside in (path.with_suffix(".json"), path.with_name("manifest.json")):
        manifest = Manifest.from_json(beside.read_bytes()) if beside.is_file() else None
        if manifest is not None and manifest.library == path.name:
            library = replace(library, manifest=manifest)
            break
    return Facts(path.name, path.stat().st_size, (library,))


def _known(before: Facts, after: Facts, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return the changes without operators that are missing on a side whose schemas are not all found."""
    unsure = {
        name for facts, name in ((before, "operator added"), (after, "operator removed")) if _hides_schemas(facts)
    }
    return tuple(change for change in changes if change.what not in unsure)


def _hides_schemas(facts: Facts) -> bool:
    return any(map(registers_in_cpp, facts.libraries))


def _compared(before: Facts, after: Facts, changes: tuple[Change, ...]) -> Iterator[Finding]:
    """Yield a fault for each operator that breaks its callers, and notes on what could not be compared."""
    yield from (replace(problem, title=f"the release before: {problem.title}") for problem in before.problems)
    broken: dict[str, list[Change]] = {}
    for change in changes:
        if change.breaks:
            broken.setdefault(change.operator, []).append(change)
    for operator, breaking in broken.items():
        yield fault(
            "schema-broken",
            f"{operator}: {'; '.join(_change_text(change) for change in breaking)}",
            detail=f"callers of {before.file_name} break",
            remedy="keep the old schema and add an overload or an argument with a default, or make it a new major version",
        )
    for facts, missing in ((before, "added"), (after, "removed")):
        if _hides_schemas(facts):
            yield note(
                "schemas-incomplete",
                f"{facts.file_name} registers operators by torch's C++ API, which hides short schemas in the code: whether "
                f"operators were {missing} is not known",
            )
    if not before.schemas or not after.schemas:
        empty = [facts.file_name for facts in (before, after) if not facts.schemas]
        yield note(
            "no-schemas",
            f"no schema is found in {' and '.join(empty)}, so the two cannot be compared",
            detail="operators that are registered in Python, or by a library of another platform, are not read",
        )


def _change_text(change: Change) -> str:
    if change.was and change.now:
        return f"{change.what} ({change.was} -> {change.now})"
    return f"{change.what} ({change.was or change.now})" if change.what != "operator removed" else change.what


def _explained(path: Path, facts: Facts, sources: str | Path | None) -> Iterator[SymbolUse]:
    folder = None if sources is None else Path(sources)
    for library in facts.libraries:
        if not library.needs.torch_cpp:
            continue
        if facts.wheel is None:
            yield from explain_uses(library, file=path, sources=folder)
        elif not library.elf.has_debug_info:
            yield from explain_uses(library, sources=folder)
        else:
            yield from _unpacked(path, library, folder)


def _unpacked(path: Path, library: Library, sources: Path | None) -> Iterator[SymbolUse]:
    """Yield the uses of a library inside a wheel, which reading has found to be sound."""
    with zipfile.ZipFile(path) as wheel, tempfile.NamedTemporaryFile(prefix="opsmith-audit-", suffix=".so") as file:
        with wheel.open(library.path) as packed:
            while piece := packed.read(1 << 20):
                file.write(piece)
        file.flush()
        yield from explain_uses(library, file=Path(file.name), sources=sources)
