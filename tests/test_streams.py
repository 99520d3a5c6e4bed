"""opsmith works with streams that a program has replaced, closed, or never had."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from opsmith._streams import flush_streams, is_terminal, write_line


def _closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, _closed(), SimpleNamespace(), io.StringIO()])
def test_what_cannot_tell_is_not_a_terminal(stream: Any) -> None:
    assert not is_terminal(stream)


def test_a_terminal_is_one() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        assert is_terminal(stream)
    os.close(ours)


@pytest.mark.parametrize("stream", [None, _closed(), SimpleNamespace()])
def test_what_cannot_be_flushed_is_left_alone(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    flush_streams()


def test_a_line_goes_where_it_can() -> None:
    stream = io.StringIO()
    write_line(stream, "text")
    assert stream.getvalue() == "text\n"
    write_line(None, "text")
    write_line(_closed(), "text")


def test_a_command_runs_without_stdin_and_stderr() -> None:
    # Closed by the shell, so that Python has None for them.
    command = f"exec '{sys.executable}' -m opsmith run -- {sys.executable} -c 'print(1)' <&- 2>&-"
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.parametrize("stream", [None, _closed()])
def test_the_lines_of_verbose_commands_need_no_stream(stream: Any) -> None:
    from opsmith.benchmark.progress import Progress
    from opsmith.report.bench.live import line_watcher
    from opsmith.report.check.mutation import line_watcher as mutation_watcher

    line_watcher(stream)(Progress("smooth", "timing", 0, 1))
    watcher = mutation_watcher("smooth", stream)
    watcher.on_step("building")
