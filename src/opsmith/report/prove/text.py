"""Shows a proof as text: a matrix of Pythons and releases of torch, and below it what went wrong where."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.package.prove.result import Proof, Row
from opsmith.report.terminal import Style, plain, wrapped

__all__ = ["proof_lines", "row_text"]

_MARKS = {"passed": "✓", "failed": "✗", "not run": "–"}
_CELL = 6


def proof_lines(proof: Proof, *, style: Style = plain, width: int = 100) -> Iterator[str]:
    """Yield the lines of a proof."""
    torches = list(dict.fromkeys(row.claim.torch for row in proof.rows))
    yield style(f"{'torch':14}" + "".join(torch.ljust(_CELL) for torch in torches).rstrip(), "head")
    for python in dict.fromkeys(row.claim.python for row in proof.rows):
        cells = {row.claim.torch: row for row in proof.rows if row.claim.python == python}
        marks = "".join(_mark(cells.get(torch), style) + " " * (_CELL - 1) for torch in torches)
        yield f"{f'Python {python}':14}{marks}".rstrip()
    yield ""
    for row in proof.rows:
        if not row.ok:
            kind = _kind(row)
            what = "is not here" if row.is_missing else f"fails at {row.failed_at}"
            first, *rest = row.problem.splitlines() or [""]
            yield from (style(line, kind) for line in wrapped(f"{_MARKS[kind]} {row.claim}: {what}: {first}", width))
            yield from (f"    {line}" for line in rest)
    if proof.has_gpu_code and not proof.gpu_code_ran:
        said = "its kernels for GPUs were not run, because no environment here has one: see `opsmith prove --here`"
        yield from (style(line, "not run") for line in wrapped(f"{_MARKS['not run']} {said}", width))
    yield style(_totals(proof), "passed" if proof.ok else "failed")


def row_text(row: Row) -> str:
    """Return what happened in one environment, in a line."""
    if row.is_missing:
        return f"{row.claim}: not tried: {row.problem.splitlines()[0]}"
    if not row.ok:
        return f"{row.claim}: fails at {row.failed_at}"
    gpu = " on CPU and GPU" if "cuda" in row.devices else ""
    return (
        f"{row.claim} ({row.torch}){gpu}: {row.checks} checks of {row.inputs:,} inputs hold, {row.gradients:,} of "
        f"gradients, {row.seconds:.0f} s"
    )


def _kind(row: Row) -> str:
    return "not run" if row.is_missing else "passed" if row.ok else "failed"


def _mark(row: Row | None, style: Style) -> str:
    return " " if row is None else style(_MARKS[_kind(row)], _kind(row))


def _totals(proof: Proof) -> str:
    tried = [row for row in proof.rows if not row.is_missing]
    good = sum(row.ok for row in tried)
    missing = len(proof.rows) - len(tried)
    verdict = (
        f"proved: works in all {good} environments" if proof.ok else f"works in {good} of {len(tried)} environments"
    )
    if not tried:
        verdict = "not proved: none of the environments can be had here"
    left = f" · {missing} cannot be had here" if missing and tried else ""
    inputs = sum(row.inputs for row in tried)
    return f"{verdict}{left} · {inputs:,} inputs · {proof.wheel}"
