"""Draws a build's progress on a terminal or in a notebook; writes a few lines to a log.

Each screen has the same three ways: `show` is called when something has changed and from time to time, `say` leaves a
line for good, `close` ends what `show` began.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from opsmith._printable import printable
from opsmith._streams import is_terminal

__all__ = ["Log", "Notebook", "Screen", "Terminal", "choose_screen"]

# Often enough for a clock, seldom enough for a notebook over a slow connection.
_TERMINAL_HZ = 10
_NOTEBOOK_PERIOD_S = 0.5

# A wait this long for another process is reported even in a log, and again after each of these.
_LONG_WAITS_S = (10.0, 60.0, 300.0)

_logger = logging.getLogger("opsmith")


class Screen(Protocol):
    """Where lines go. `is_wait` means that another process builds."""

    def show(self, line: Callable[[], str], *, waited_s: float | None = None) -> None:
        """Show what `line` returns now, and keep it current."""

    def say(self, text: str) -> None:
        """Leave a line for good."""

    def close(self) -> None:
        """End what `show` began."""


def choose_screen(stream: TextIO | None = None) -> Screen:
    """Return the screen for a stream, stderr by default: a notebook's output is not a terminal, but users look at it."""
    if stream is None and _in_notebook():
        return Notebook()
    stream = stream or sys.stderr
    return Terminal(stream) if is_terminal(stream) else Log()


class Terminal:
    """One line at the bottom, renewed in place and gone at the end."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live: Any = None
        self._is_rewritten = False

    def show(self, line: Callable[[], str], *, waited_s: float | None = None) -> None:
        """Begin to show the line; it renews itself from then on, because a compiler is silent until it is done.

        A wait is reported repeatedly and is not renewed by itself: it may end silently.
        """
        if waited_s is not None:
            self._rewrite(line(), is_first=waited_s == 0)
        elif self._live is None:
            self._rewrite()
            self._live = self._begin(line)

    def say(self, text: str) -> None:
        """Leave a line for good."""
        self.close()
        self._rewrite()
        self._console.print(f"opsmith  {printable(text)}", soft_wrap=True)

    def close(self) -> None:
        """Take the line away and give the cursor back."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _begin(self, line: Callable[[], str]) -> Any:
        from rich.live import Live
        from rich.text import Text

        def render() -> Text:
            return Text(f"opsmith  {printable(line())}", no_wrap=True, overflow="ellipsis")

        live = Live(
            get_renderable=render,
            console=self._console,
            refresh_per_second=_TERMINAL_HZ,
            transient=True,
            redirect_stdout=False,  # what the process itself prints is not ours to redirect
            redirect_stderr=False,
        )
        live.start(refresh=True)
        return live

    def _rewrite(self, text: str = "", *, is_first: bool = False) -> None:
        """Replace what this has written without a line end, by a text or nothing."""
        text = printable(text)
        if self._console.is_dumb_terminal:
            if is_first:
                self._console.print(f"opsmith  {text}", soft_wrap=True)
        elif text or self._is_rewritten:
            shown = f"opsmith  {text} "[: self._console.width - 1] if text else ""
            self._console.file.write(f"\r\x1b[K{shown}")
            self._console.file.flush()
            self._is_rewritten = bool(text)


class Notebook:
    """One output that is updated in place: text that is written again and again would fill the notebook's file."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._line: Callable[[], str] | None = None
        self._stop = threading.Event()
        self._clock: threading.Thread | None = None

    def show(self, line: Callable[[], str], *, waited_s: float | None = None) -> None:
        """Begin to show the line, and renew it in the background; a wait is reported repeatedly, and may end silently."""
        self._line = line
        self._put(line())
        if self._clock is None and waited_s is None:
            self._stop = threading.Event()
            self._clock = threading.Thread(target=self._tick, args=(self._stop,), daemon=True)
            self._clock.start()

    def say(self, text: str) -> None:
        """Replace the moving line by a permanent one."""
        self.close()
        self._put(text)
        self._handle = None

    def close(self) -> None:
        """Stop renewing the line."""
        if self._clock is not None:
            self._stop.set()
            self._clock.join()
            self._clock = None

    def _tick(self, stop: threading.Event) -> None:
        while not stop.wait(_NOTEBOOK_PERIOD_S):
            if self._line is not None:
                self._put(self._line())

    def _put(self, text: str) -> None:
        from IPython.display import display

        bundle = {"text/plain": f"opsmith  {printable(text)}"}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)


class Log:
    """Nothing, but for a record at level INFO; a long wait for another process is a warning, so no hang is silent."""

    def __init__(self) -> None:
        self._told = 0

    def show(self, line: Callable[[], str], *, waited_s: float | None = None) -> None:
        """Tell of a wait that has become long."""
        if waited_s is None or waited_s < self._next():
            return
        self._told += 1
        _logger.warning("opsmith: %s", printable(line()))

    def say(self, text: str) -> None:
        """Put a record into the log."""
        _logger.info("opsmith: %s", printable(text))

    def close(self) -> None:
        """There is nothing to end."""

    def _next(self) -> float:
        if self._told < len(_LONG_WAITS_S):
            return _LONG_WAITS_S[self._told]
        return _LONG_WAITS_S[-1] * (self._told - len(_LONG_WAITS_S) + 2)


def _in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
