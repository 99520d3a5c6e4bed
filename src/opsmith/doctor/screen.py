"""Prints findings."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence

from opsmith.doctor.finding import Finding, Status

__all__ = ["show"]

_MARKS: dict[Status, str] = {"ok": "✓", "warning": "!", "problem": "✗"}
_PLAIN_MARKS: dict[Status, str] = {"ok": "+", "warning": "!", "problem": "x"}
_GAP = 4
_MOST_COLUMNS = 3


def show(
    findings: Sequence[Finding],
    *,
    details: bool = False,
    encoding: str = "utf-8",
    style: Callable[[str, Status], str] = lambda mark, status: mark,
) -> Iterator[str]:
    """Yield the lines of a screen: what works side by side, then each thing that does not, with what fixes it.

    `details` gives what works a line each, too. `style` colours a mark.
    """
    marks = _MARKS if _can_show(_MARKS, encoding) else _PLAIN_MARKS
    good = [finding for finding in findings if finding.status == "ok"]
    if details:
        for finding in good:
            yield f"  {style(marks['ok'], 'ok')} {finding.title}"
            if finding.detail:
                yield from _indented(finding.detail)
    else:
        yield from _columns([finding.title for finding in good], style(marks["ok"], "ok"))
    for status in ("problem", "warning"):
        for finding in findings:
            if finding.status == status:
                yield f"  {style(marks[status], status)} {finding.title}"
                yield from _indented(finding.detail)
                yield f"      {finding.remedy}"


def _columns(titles: Sequence[str], mark: str) -> Iterator[str]:
    if not titles:
        return
    width = max(map(len, titles)) + _GAP + 2
    count = max(1, min(_MOST_COLUMNS, (_width() - 2) // width))
    for start in range(0, len(titles), count):
        row = titles[start : start + count]
        cells = [f"{mark} {title}{' ' * (width - len(title) - 2)}" for title in row]
        yield f"  {''.join(cells).rstrip()}"


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (
            f"    {part}" for part in textwrap.wrap(line, _width() - 4, break_on_hyphens=False, break_long_words=False)
        )


def _width() -> int:
    return min(max(shutil.get_terminal_size((100, 24)).columns, 40), 120)


def _can_show(marks: dict[Status, str], encoding: str) -> bool:
    try:
        "".join(marks.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
