"""Shows a profile as text: for each call its parts with bars, and on a GPU its kernels and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.benchmark.statistics import Interval
from opsmith.profiler.result import CallProfile, Gpu, Kernel, Part, ProfileReport
from opsmith.report.terminal import Cell, Style, aligned, bar, plain
from opsmith.report.units import duration, percent, size, with_prefix

__all__ = ["call_lines", "report_lines", "report_text"]

_BAR_LENGTH = 20
# A kernel's name may be a page of template arguments.
_NAME_LENGTH = 60
_PHASES = {
    "forward": "forward",
    "recording": "forward, recording its gradient",
    "backward": "backward",
}


def report_text(report: ProfileReport) -> str:
    """Return the whole report as text, without colours."""
    return "\n".join(report_lines(report))


def report_lines(report: ProfileReport, *, style: Style = plain) -> Iterator[str]:
    """Yield the lines of a report."""
    machine = report.machine
    where = f"{machine.name}, {machine.threads} CPU threads, torch {machine.torch}"
    yield f"{style(report.operator, 'head')}   {style(where, 'dim')}"
    for call in report.calls:
        yield ""
        yield from call_lines(call, report.machine.device, style=style)
    yield ""
    for warning in report.warnings:
        yield style(f"! {warning}", "warning")
    for note in dict.fromkeys(note for call in report.calls for note in call.notes):
        yield style(f"– {note}", "dim")
    rounds = min((call.rounds for call in report.calls), default=0)
    yield style(
        f"median and 95 % interval of {rounds} rounds or more · seed {report.seed} · {report.seconds:.0f} s", "dim"
    )


def call_lines(call: CallProfile, device: str, *, style: Style = plain) -> Iterator[str]:
    """Yield the lines of one call: what it takes, its parts, and what the GPU does in it."""
    what = "launching one call" if device == "cuda" else "one call"
    title = f"{call.workload}, {call.dtype}, {_PHASES.get(call.phase, call.phase)}"
    yield f"{style(title, 'head')}: {what} takes {_interval(call.whole)}"
    if call.parts:
        yield from aligned([_part(part) for part in call.parts], style)
    if call.agreement is not None:
        sign, kind = ("  ", "dim") if call.is_believable else ("  ! ", "warning")
        low, high = 100 * (call.agreement.low - 1), 100 * (call.agreement.high - 1)
        yield style(
            f"{sign}the parts add up to the call within {percent(call.uncertainty)} (with clocks inside, without their "
            f"own time: {low:+.0f} to {high:+.0f} %)",
            kind,
        )
    if call.gpu is not None:
        yield from _gpu(call.gpu, style)


def _part(part: Part) -> list[Cell]:
    drawn: Cell = (bar(part.share, _BAR_LENGTH), "")
    if part.time.low <= 0:
        # Within the noise of its measurement: how much it may be is all that is known.
        return [
            (part.name, ""),
            drawn,
            ("", ""),
            (f"< {duration(max(part.time.high, 1e-9))}", "dim"),
            (part.what, "dim"),
        ]
    cells: list[Cell] = [(part.name, ""), drawn, (percent(part.share).rjust(5), "")]
    return [*cells, (_interval(part.time), ""), (part.what, "dim")]


def _gpu(gpu: Gpu, style: Style) -> Iterator[str]:
    counts = f"{sum(kernel.launches for kernel in gpu.kernels):.3g} launches" if len(gpu.kernels) > 1 else "1 launch"
    yield f"  on the GPU: {_interval(gpu.busy)} in {counts}; a call among many takes {_interval(gpu.wall)}: " + style(
        _verdict(gpu), "own"
    )
    yield (
        f"  {size(gpu.bytes_moved)} of the definition in that time: {with_prefix(gpu.bandwidth, 'B/s')}, "
        f"{percent(gpu.of_ceiling)} of a copy's bandwidth here"
    )
    if gpu.gap_s is not None:
        yield f"  between two launches of a call: {duration(gpu.gap_s)} (under the profiler, which delays launches)"
    rows: list[list[Cell]] = [[(head, "dim") for head in _HEADS]]
    yield from aligned([*rows, *(_kernel(kernel) for kernel in gpu.kernels)], style)
    yield from _ncu(gpu, style)
    for note in gpu.notes:
        yield style(f"  – {note}", "dim")


_HEADS = ("kernel", "launches", "time", "grid", "block", "registers", "shared", "local", "occupancy")


def _verdict(gpu: Gpu) -> str:
    host = f"launching takes {duration(gpu.host.middle)}"
    if gpu.verdict == "host-bound":
        return f"host-bound, {host}: a CUDA graph may help, a faster kernel does not"
    if gpu.verdict == "GPU-bound":
        return f"GPU-bound, {host}, which other calls hide"
    return f"balanced, {host}"


def _kernel(kernel: Kernel) -> list[Cell]:
    def known(value: float | int | None, text: str) -> Cell:
        return ("–", "dim") if value is None else (text, "")

    name = kernel.name if len(kernel.name) <= _NAME_LENGTH else f"{kernel.name[: _NAME_LENGTH - 1]}…"
    return [
        (name, ""),
        (f"{kernel.launches:.3g}", ""),
        (duration(kernel.time.middle), ""),
        ("x".join(map(str, kernel.grid)) or "–", ""),
        ("x".join(map(str, kernel.block)) or "–", ""),
        known(kernel.registers, f"{kernel.registers}"),
        known(kernel.shared_bytes, size(kernel.shared_bytes or 0)),
        known(kernel.local_bytes, size(kernel.local_bytes or 0)),
        known(kernel.occupancy, percent(kernel.occupancy or 0)),
    ]


def _ncu(gpu: Gpu, style: Style) -> Iterator[str]:
    if "missing" in gpu.ncu:
        yield style(f"  – counters: {gpu.ncu['missing']}", "dim")
    for kernel in gpu.ncu.get("kernels", ()):
        moved = kernel.get("dram_read_bytes", 0.0) + kernel.get("dram_written_bytes", 0.0)
        parts = [f"{size(round(moved))} to and from memory"]
        parts += [f"{percent(kernel['dram_share'])} of its peak"] if "dram_share" in kernel else []
        parts += [f"{percent(kernel['occupancy'])} of the warps active"] if "occupancy" in kernel else []
        yield f"  counters (ncu): {kernel['name'][:_NAME_LENGTH]}: {', '.join(parts)}"


def _interval(interval: Interval) -> str:
    """Return a time with its interval, in the unit of the time: `1.05 us [1.02, 1.12]`."""
    middle, unit = duration(interval.middle).rsplit(" ", 1)
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
    digits = len(middle.partition(".")[2])
    return f"{middle} {unit} [{interval.low / scale:,.{digits}f}, {interval.high / scale:,.{digits}f}]"
