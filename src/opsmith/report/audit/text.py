"""Shows an audit as text: what the file needs, what is in it, then each fault with what fixes it, and the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opsmith._printable import printable
from opsmith.package.audit.driver import find_driver
from opsmith.package.audit.facts import Facts, Library, Sizes
from opsmith.package.audit.fatbin import CUDA_SECTIONS
from opsmith.package.audit.finding import Finding
from opsmith.package.audit.floors import Floors
from opsmith.package.audit.judge.gpu import merge_archs
from opsmith.package.audit.judge.tags import tag_text
from opsmith.package.audit.result import Audit
from opsmith.report.audit.migration import migration_lines
from opsmith.report.terminal import WIDTH, Cell, Style, aligned, plain, wrapped
from opsmith.report.units import count_of, size
from opsmith.toolchain.shims import release_text

__all__ = ["audit_lines", "audit_text"]

_MOST_LIBRARIES = 8
_MOST_OPERATORS = 6
# Columns before what is needed.
_LABEL = 13


def audit_text(result: Audit) -> str:
    """Return the whole audit as text, without colours."""
    return "\n".join(audit_lines(result))


def audit_lines(result: Audit, *, style: Style = plain, details: bool = False, width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of an audit. `details` adds what notes are about, and every library."""
    yield _title(result.facts, style)
    if result.facts.libraries:
        yield from _floor_lines(result, style, width)
        yield ""
        yield from aligned(_library_rows(result.facts.libraries, details), style)
    if result.uses:
        yield ""
        yield from migration_lines(result.uses, style=style, details=details)
    if result.changes:
        yield ""
        yield from _change_lines(result, style)
    if result.findings:
        yield ""
    for finding, more in _grouped(result.faults):
        yield from _finding_lines(finding, more, style, width, details=True)
    for finding, more in _grouped(result.notes):
        yield from _finding_lines(finding, more, style, width, details=details)
    yield ""
    yield _verdict(result, style)


def _title(facts: Facts, style: Style) -> str:
    if facts.wheel is None:
        return f"{style(printable(facts.file_name), 'head')}   {style(size(facts.size), 'dim')}"
    wheel = facts.wheel
    about = f"{tag_text(wheel.tags)}, {size(facts.size)}, {count_of(len(wheel.members), 'file')}"
    return f"{style(f'{wheel.name} {wheel.version}', 'head')}   {style(about, 'dim')}"


def _floor_lines(result: Audit, style: Style, width: int) -> Iterator[str]:
    for name, value, reason in _floors(result):
        first, *rest = wrapped(printable(value), width - _LABEL)
        shown = f"{first}   {style(printable(reason), 'dim')}" if reason and not rest else first
        yield f"  {style(name, 'dim')}{' ' * (_LABEL - 2 - len(name))}{shown}"
        yield from (f"{' ' * (_LABEL - 2)}{line}" for line in rest)


def _floors(result: Audit) -> Iterator[tuple[str, str, str]]:
    """Yield what is needed: of whom, what, and why."""
    floors, facts = result.floors, result.facts
    yield "torch", *_torch(floors, facts)
    yield "Python", *_python(floors)
    if floors.glibc is not None:
        tag = f"; the tag for it is {floors.platform}" if floors.platform else ""
        yield "glibc", f"{release_text(floors.glibc)} or newer", f"for {floors.glibc_because}{tag}"
    yield from _gpu(facts, floors)
    if facts.wheel is not None and facts.wheel.copies:
        yield "opsmith", "not needed", f"what runs the operators is in {', '.join(facts.wheel.copies)}"
    operators = sorted({schema.qualified for schema in facts.schemas})
    if operators:
        shown = ", ".join(operators[:_MOST_OPERATORS])
        more = len(operators) - _MOST_OPERATORS
        yield "operators", f"{shown} and {more} more" if more > 0 else shown, ""


def _torch(floors: Floors, facts: Facts) -> tuple[str, str]:
    if not floors.uses_torch:
        return "not used", ""
    if floors.torch_is_exact:
        count = sum(len(library.needs.torch_cpp) for library in facts.libraries)
        return "the release it is built with", f"for {count_of(count, 'symbol')} of its C++ API"
    if floors.torch is None:
        return "unknown", ""
    count = len({name for library in facts.libraries for name in library.needs.shims})
    reason = f"stable ABI, {count_of(count, 'function')}; the newest is {floors.torch_because}"
    return f"{release_text(floors.torch)} or newer", reason


def _python(floors: Floors) -> tuple[str, str]:
    if floors.python_is_exact:
        return "the release it is built with", f"for {floors.python_because}, which is not in the limited API"
    if floors.python is None:
        return "any", ""
    return f"{release_text(floors.python)} or newer", f"limited API; the newest is {floors.python_because}"


def _gpu(facts: Facts, floors: Floors) -> Iterator[tuple[str, str, str]]:
    # What is bundled of NVIDIA's has code for more GPUs than the operators.
    own = [library for library in facts.libraries if library.needs.uses_torch] or facts.libraries
    archs = merge_archs(arch for library in own for arch in library.cuda)
    targets = sorted({target for library in own for target in library.amd})
    if not archs and not targets and not floors.cuda:
        return
    # Triton's kernels need the driver alone.
    has_runtime = any(section.name in CUDA_SECTIONS for library in own for section in library.elf.sections)
    is_inside = has_runtime and not any(library.needs.cuda_runtime for library in own)
    linked = [
        f"linked to {name} {' and '.join(map(str, majors))}"
        for name, majors in (("CUDA", floors.cuda), ("ROCm", floors.rocm))
        if majors
    ]
    runtime = ", ".join(linked) or ("the CUDA runtime is linked in" if is_inside else "")
    yield "GPU", ", ".join([*map(str, archs), *targets]) or "no code of its own", runtime
    if (need := find_driver(own)) is not None:
        yield "driver", need.text, need.reason


def _library_rows(libraries: Sequence[Library], details: bool) -> list[list[Cell]]:
    shown = libraries if details else sorted(libraries, key=lambda item: -item.sizes.whole)[:_MOST_LIBRARIES]
    rows: list[list[Cell]] = [
        [(printable(library.path), ""), (size(library.sizes.whole), ""), (_parts(library.sizes, library), "dim")]
        for library in shown
    ]
    if len(shown) < len(libraries):
        rows.append([(f"and {count_of(len(libraries) - len(shown), 'smaller library')} (-v shows them)", "dim")])
    return rows


def _parts(sizes: Sizes, library: Library) -> str:
    parts = {"code": sizes.code, "data": sizes.data, "GPU code": sizes.gpu, "debug and names": sizes.debug}
    text = " · ".join(f"{name} {size(count)}" for name, count in parts.items() if count)
    return f"{text} · stripped" if library.elf.is_stripped else text


def _change_lines(result: Audit, style: Style) -> Iterator[str]:
    breaking = sum(change.breaks for change in result.changes)
    yield f"{count_of(len(result.changes), 'change')} since {printable(result.against)}, {breaking} of which break callers"
    added = [change.operator for change in result.changes if change.what == "operator added"]
    if added:
        yield f"  {style('·', 'dim')} added: {printable(', '.join(added))}"
    for change in result.changes:
        if change.what == "operator added":
            continue
        sign, kind = ("✗", "failed") if change.breaks else ("·", "dim")
        text = f"{change.was} -> {change.now}" if change.was and change.now else change.was or change.now
        yield f"  {style(sign, kind)} {printable(change.operator)}: {change.what}  {style(printable(text), 'dim')}"


def _grouped(findings: Sequence[Finding]) -> Iterator[tuple[Finding, int]]:
    """Yield findings of different names, or each fault, with how many more there are like it."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        key = finding.title if finding.severity == "fault" else ""
        groups.setdefault((finding.name, key), []).append(finding)
    for group in groups.values():
        yield group[0], len(group) - 1


def _finding_lines(finding: Finding, more: int, style: Style, width: int, *, details: bool) -> Iterator[str]:
    sign, kind = ("✗", "failed") if finding.severity == "fault" else ("–", "dim")
    tail = f" (and {more} more)" if more else ""
    title, *rest = wrapped(printable(f"{finding.title}{tail}  [{finding.name}]"), width - 2)
    yield f"{style(sign, kind)} {title}"
    yield from (f"  {line}" for line in rest)
    if details:
        for text in (finding.detail, finding.remedy):
            if text:
                yield from (f"    {line}" for line in wrapped(printable(text), width - 4))


def _verdict(result: Audit, style: Style) -> str:
    notes = f" · {count_of(len(result.notes), 'note')}" if result.notes else ""
    if result.is_sound:
        return f"{style('sound', 'passed')}: nothing that it claims is false{notes}"
    return f"{style('refused', 'failed')}: {count_of(len(result.faults), 'fault')}{notes}"
