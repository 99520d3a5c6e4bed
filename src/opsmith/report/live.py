"""Redraws lines in place on a terminal while something runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from opsmith.report.terminal import for_encoding

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["LiveScreen"]

# Lines below the table, and one that the terminal's cursor needs.
_BELOW = 3


class LiveScreen:
    """Lines of rich's markup, a status below them; gone at the end. `period_s` is the least time between two drawings.

    It draws when it is called and has no thread: the check forks, and what a thread holds then stays held in the child;
    and a thread that draws while the benchmark takes samples takes time and cache from what is measured.
    """

    def __init__(self, console: Console, *, period_s: float = 0.0) -> None:
        from rich.live import Live

        self.console = console
        self._period_s, self._drawn_at = period_s, float("-inf")
        self._started = time.monotonic()
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, lines: Callable[[], Iterable[str]], status: str) -> None:
        """Draw lines in place of the former ones, unless those are too new; `status` is shown after the seconds."""
        from rich.text import Text

        now = time.monotonic()
        if now - self._drawn_at < self._period_s:
            return
        self._drawn_at = now
        listed = [for_encoding(line, self.console.encoding) for line in lines()]
        # Lines that have left the window cannot be redrawn, so of a long table the title and the end are shown.
        space = max(3, self.console.height - _BELOW - 1)
        text = Text.from_markup("\n".join([*listed[:1], *listed[1:][-space:]]))
        text.append(for_encoding(f"\n{now - self._started:4.0f} s  {status}", self.console.encoding), style="dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        self._live.update(text, refresh=True)
