"""A build on a terminal, in a log, and one that fails or is waited for."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from opsmith.build.announce import announcer, step_lines
from opsmith.build.ninja import Progress
from opsmith.build.plan import Plan, Step
from opsmith.build.watcher import Watcher
from opsmith.spec.extension import Extension

_PLAN = Plan(
    Extension("demo", Path(), (), ("cpu",)),
    {},
    (Step("a.cpp", ("c++", "a.cpp"), ("a.cpp",), "a.o"), Step("link", ("c++", "a.o"), ("a.o",), "demo.so")),
    "demo.so",
    {},
)

# A build of a second, by a compiler that is slow on purpose, below a terminal.
_BUILD = """
import sys, time
from pathlib import Path
from test_announce_kit import PLAN
from opsmith.build.announce import announcer
from opsmith.build.watcher import watched
from opsmith.build.ninja import run_plan
from opsmith.errors import CompileError
watcher = announcer("demo")
try:
    with watched(PLAN, watcher):
        run_plan(PLAN, Path(sys.argv[1]), on_progress=watcher.on_progress, on_output=watcher.on_output)
except CompileError as error:
    time.sleep(0.5)
    print("CompileError")
"""

_KIT = """
from pathlib import Path
from opsmith.build.plan import Plan, Step
from opsmith.spec.extension import Extension
PLAN = Plan(Extension("demo", Path(), (), ("cpu",)), {}, (
    Step("a.cpp", ("sh", "-c", "sleep 0.6; COMMAND"), (), "a.o"),
    Step("link", ("touch", "demo.so"), ("a.o",), "demo.so")), "demo.so", {})
"""


def on_a_terminal(tmp_path: Path, command: str, **environment: str) -> str:
    """Run the slow build with a terminal for stderr, and return every byte that came there."""
    (tmp_path / "test_announce_kit.py").write_text(_KIT.replace("COMMAND", command))
    (tmp_path / "work").mkdir()
    above, below = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name not in {"OPSMITH_QUIET", "NO_COLOR"}}
    env |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "TERM": "xterm", "COLUMNS": "100", **environment}
    argv = [sys.executable, "-c", _BUILD, str(tmp_path / "work")]
    with subprocess.Popen(argv, env=env, stderr=below, stdout=subprocess.PIPE, text=True) as process:
        os.close(below)
        seen = b""
        try:
            while chunk := os.read(above, 4096):
                seen += chunk
        except OSError:  # the other end is closed
            pass
        os.close(above)
        assert process.wait(60) == 0
    return seen.decode()


def test_a_terminal_shows_one_line_that_is_replaced_by_the_result(tmp_path):
    text = on_a_terminal(tmp_path, "touch a.o")
    assert "opsmith  building demo  [0/2]  a.cpp  0." in text
    assert text.count("building demo") >= 4, "the clock is renewed while the compiler is silent"
    last = text.replace("\r", "").split("\n")[-2]
    assert "opsmith  built demo in" in last
    # Newlines are what scrolls: one after the first frame's place and one after the result.
    assert text.count("\n") <= 2
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is given back"


def test_a_failed_build_stops_the_line(tmp_path):
    text = on_a_terminal(tmp_path, "exit 1")
    assert "opsmith  demo failed after" in text
    after = text[text.index("demo failed after") :]
    assert "building demo" not in after
    assert "\x1b[?25h" in text


def test_no_colour_is_asked_for_with_no_color(tmp_path):
    text = on_a_terminal(tmp_path, "touch a.o", NO_COLOR="1")
    assert "\x1b[3" not in text


def test_quiet_says_nothing_on_a_terminal(tmp_path):
    assert on_a_terminal(tmp_path, "touch a.o", OPSMITH_QUIET="1") == ""


def test_a_log_gets_no_line_but_a_record(monkeypatch, caplog):
    monkeypatch.delenv("OPSMITH_QUIET", raising=False)
    stream = io.StringIO()
    watcher = announcer("demo", stream)
    with caplog.at_level(logging.INFO, "opsmith"):
        run_through(watcher)
    assert stream.getvalue() == ""
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.messages == ["opsmith: built demo in 2.5s"]


def test_a_long_wait_is_a_warning_even_in_a_log(monkeypatch, caplog):
    monkeypatch.delenv("OPSMITH_QUIET", raising=False)
    watcher = announcer("demo", io.StringIO())
    assert watcher.on_wait is not None
    for half in range(150):
        watcher.on_wait(half / 2)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        f"opsmith: waiting for demo, which another process is building  {seconds}s" for seconds in (10, 60)
    ]


def test_verbose_shows_commands_steps_and_the_end(monkeypatch):
    stream = io.StringIO()
    run_through(announcer("demo", stream, verbose=True))
    assert stream.getvalue().splitlines() == [
        "c++ a.cpp",
        "c++ a.o",
        "opsmith  demo  [1/2]  a.cpp  1.5s",
        "a warning of the compiler",
        "opsmith  demo  [2/2]  link  2.0s",
        "opsmith  built demo in 2.5s",
    ]


class _Replaced:
    """A stream as programs make them that log what they print: StyleGAN's, for example."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


def _closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("make", [_Replaced, _closed, lambda: None], ids=["replaced", "closed", "none"])
@pytest.mark.parametrize("variable", ["OPSMITH_VERBOSE", ""])
def test_a_build_needs_nothing_of_stderr(monkeypatch, make, variable):
    stderr = make()
    monkeypatch.delenv("OPSMITH_QUIET", raising=False)
    monkeypatch.setattr(sys, "stderr", stderr)
    if variable:
        monkeypatch.setenv(variable, "1")
    watcher = announcer("demo")
    assert watcher.on_start is not None
    assert watcher.on_progress is not None
    assert watcher.on_end is not None
    watcher.on_start(_PLAN)
    watcher.on_progress(Progress("a.cpp", 1, 2, 0.5))
    watcher.on_end(_PLAN, 1.0)
    if isinstance(stderr, _Replaced):
        assert ("built demo" in stderr.text) == bool(variable)


def test_step_lines_have_no_commands():
    stream = io.StringIO()
    run_through(step_lines("demo", stream))
    assert stream.getvalue().splitlines() == [
        "opsmith  demo  [1/2]  a.cpp  1.5s",
        "opsmith  demo  [2/2]  link  2.0s",
        "opsmith  built demo in 2.5s",
    ]


def run_through(watcher: Watcher) -> None:
    """Tell a watcher of a build of two steps."""
    assert watcher.on_start
    watcher.on_start(_PLAN)
    assert watcher.on_progress
    watcher.on_progress(Progress("a.cpp", 1, 2, 1.5))
    if watcher.on_output is not None:
        watcher.on_output("a warning of the compiler")
    watcher.on_progress(Progress("link", 2, 2, 2.0))
    assert watcher.on_end
    watcher.on_end(_PLAN, 2.5)


@pytest.mark.parametrize("name", ["on_start", "on_progress", "on_wait", "on_end", "on_fail", "on_found", "on_lock"])
def test_quiet_watches_nothing(monkeypatch, name):
    monkeypatch.setenv("OPSMITH_QUIET", "1")
    assert getattr(announcer("demo", io.StringIO()), name) is None
