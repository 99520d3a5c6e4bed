"""Shows what mutation found as text: the kinds of mutants, the survivors with their lines, the score; and its progress."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from opsmith._streams import write_line
from opsmith.checker.mutate.report import MutationReport, Verdict
from opsmith.checker.mutate.run import MutationWatcher
from opsmith.report.live import LiveScreen
from opsmith.report.terminal import Style, aligned, bar, for_encoding, plain, wrapped

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["line_watcher", "mutation_screen", "report_lines", "report_text"]

_WIDTH = 100
_BAR = 30
_PERIOD_S = 0.1


def report_text(report: MutationReport) -> str:
    """Return the whole report as text, without colours."""
    return "\n".join(report_lines(report))


def report_lines(
    report: MutationReport, *, style: Style = plain, width: int = _WIDTH, verbose: bool = False
) -> Iterator[str]:
    """Yield the lines of a report; `verbose` lists the mutants that were found, too, and what found them."""
    yield style(f"{report.operator}    {report.device}    {len(report.verdicts)} of {report.possible} mutants", "head")
    yield from aligned(_rows(report), style, "lrrrr")
    yield ""
    for verdict in report.survivors:
        yield from _survivor(verdict, style, width)
    if verbose:
        for verdict in report.verdicts:
            if verdict.fate != "survived":
                said = ": ".join(filter(None, (verdict.named, verdict.message)))
                yield from wrapped(f"{_place(verdict)} {verdict.fate}: {said}", width)
        yield ""
    for line in [*_found_by(report), *report.notes]:
        yield from (style(part, "dim") for part in wrapped(f"– {line}", width))
    yield style(_total(report), "passed" if not report.survivors else "")


def _rows(report: MutationReport) -> list[list[tuple[str, str]]]:
    rows = [[(head, "dim") for head in ("kind", "planted", "not counted", "found", "survived")]]
    listed = report.counts()
    for count in listed:
        left_out = count.not_compiled + count.same_code
        numbers = [str(number) for number in (count.planted, left_out, count.found)]
        survived = (str(count.survived), "failed" if count.survived else "")
        rows.append([(count.kind, ""), *((number, "") for number in numbers), survived])
    return rows


def _survivor(verdict: Verdict, style: Style, width: int) -> Iterator[str]:
    mutant = verdict.mutant
    before, after = mutant.before_line.splitlines() or [""], mutant.after_line.splitlines() or [""]
    yield from (style(line, "failed") for line in wrapped(f"survived: {_place(verdict)} ({mutant.function})", width))
    yield from (f"    - {line.strip()}" for line in before)
    yield from (f"    + {line.strip()}" for line in after)
    if verdict.why:
        yield from (f"    {line}" for line in wrapped(verdict.why, width - 4))
    yield ""


def _place(verdict: Verdict) -> str:
    mutant = verdict.mutant
    return f"{mutant.file.name}:{mutant.line} {mutant.kind}"


def _found_by(report: MutationReport) -> Iterator[str]:
    """Yield what found the mutants: properties, with how many each."""
    counts = Counter(v.named.partition(",")[0] or "its process" for v in report.verdicts if v.fate == "found")
    if counts:
        yield f"found by {', '.join(f'{name} ({count})' for name, count in counts.most_common())}"


def _total(report: MutationReport) -> str:
    counted, survivors = len(report.counted), len(report.survivors)
    same = sum(verdict.fate == "same code" for verdict in report.verdicts)
    broken = sum(verdict.fate == "not compiled" for verdict in report.verdicts)
    parts = [
        "no mutant counts"
        if report.score is None
        else f"{counted - survivors} of {counted} mutants found ({report.score:.0f} %)"
    ]
    parts += [f"{same} not counted for giving the same code"] if same else []
    parts += [f"{broken} for not compiling"] if broken else []
    return " · ".join([*parts, f"seed {report.seed}", f"{report.seconds:.0f} s"])


@contextmanager
def mutation_screen(console: Console, title: str) -> Iterator[MutationWatcher]:
    """Show on a terminal how many mutants are decided, how many survive, and how long the others may take."""
    survived, started, status = 0, time.monotonic(), ""
    done, total = 0, 0
    with LiveScreen(console, period_s=_PERIOD_S) as screen:

        def lines() -> list[str]:
            return [title, f"{bar(done / total if total else 0.0, _BAR)}  {done} of {total}, {survived} survived"]

        def on_step(text: str) -> None:
            nonlocal status, started
            status, started = text, time.monotonic()
            screen.draw(lines, status)

        def on_verdict(verdict: Verdict, decided: int, of: int) -> None:
            nonlocal done, total, survived, status
            done, total = decided, of
            survived += verdict.fate == "survived"
            left_s = (time.monotonic() - started) / done * (total - done)
            status = f"about {left_s:.0f} s left"
            screen.draw(lines, status)

        yield MutationWatcher(on_step, on_verdict)


def line_watcher(title: str, stream: TextIO | None) -> MutationWatcher:
    """Return a watcher that writes a line for each step and mutant, for logs."""
    started = time.monotonic()

    def write(text: str) -> None:
        write_line(stream, for_encoding(f"opsmith  {title}  {text}", getattr(stream, "encoding", None)))

    def on_verdict(verdict: Verdict, done: int, total: int) -> None:
        left_s = (time.monotonic() - started) / done * (total - done)
        said = f" by {verdict.named}" if verdict.named else ""
        write(f"{done}/{total}  {_place(verdict)}: {verdict.fate}{said}  (about {left_s:.0f} s left)")

    return MutationWatcher(write, on_verdict)
