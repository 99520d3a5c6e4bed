"""Ctrl-C during a build: every compiler ends at once, no lock is left, and the next build works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.compile

# What starts the tests in the background may ignore Ctrl-C, for their children too.
_SCRIPT = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from opsmith.cpp_extension import load
try:
    print("built", load("interrupted", [sys.argv[1]], is_python_module=False))
except KeyboardInterrupt:
    print("KeyboardInterrupt")
    sys.exit(130)
"""

# A compiler that answers questions as ever and takes a minute for every file, with a child of its own as g++ has.
_SLOW = """#!/bin/sh
case " $* " in *" -c "*) sleep 61; exit 1;; esac
exec g++ "$@"
"""


def _session_members(session: int) -> list[str]:
    """Return the command of every living process of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, ValueError):
            continue
        # State, parent, group, session; a zombie is dead and only waits for its parent.
        if entry.name.isdigit() and int(fields[3]) == session and fields[0] != "Z":
            found.append(" ".join(words))
    return found


@pytest.mark.slow("builds that are stopped; failure_modes/test_races.py kills one")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("whom", ["the process alone", "the terminal's whole group"])
def test_ctrl_c_ends_every_compiler_and_leaves_no_lock(tmp_path, whom):
    source, slow = tmp_path / "source.cpp", tmp_path / "slow-c++"
    source.write_text('extern "C" int answer() { return 42; }\n')
    slow.write_text(_SLOW)
    slow.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPSMITH_CACHE_DIR": str(tmp_path / "store")}
    argv = [sys.executable, "-c", _SCRIPT, str(source)]
    slowly = {**env, "CXX": str(slow)}
    with subprocess.Popen(argv, env=slowly, start_new_session=True, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not any("sleep 61" in command for command in _session_members(process.pid)):
            assert process.poll() is None and time.monotonic() < deadline, "no compiler was started"
            time.sleep(0.05)
        started = time.monotonic()
        if whom == "the process alone":
            process.send_signal(signal.SIGINT)
        else:
            os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert time.monotonic() - started < 5
    assert (out, process.returncode) == ("KeyboardInterrupt\n", 130)
    assert _session_members(process.pid) == []

    started = time.monotonic()
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("built ")
    assert "waiting" not in done.stderr
    staging = list((tmp_path / "store").glob("*/staging/*"))
    assert staging == [], "nothing of the interrupted build is left"
