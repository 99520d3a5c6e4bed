"""`opsmith run`: exit codes, signals, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from opsmith.cli.run import command


def test_no_command_is_a_wrong_command_line():
    assert CliRunner().invoke(command, []).exit_code == 2
    assert CliRunner().invoke(command, ["--"]).exit_code == 2


def test_a_program_that_is_not_there_is_a_wrong_command_line():
    result = CliRunner().invoke(command, ["--", "there-is-no-such-program"])
    assert result.exit_code == 2
    assert "program there-is-no-such-program not found" in result.output


def test_the_commands_exit_code_and_options_are_its_own(below):
    assert below("sh", "-c", "exit 7", fails=True).returncode == 7
    done = below("python", "-c", "import sys; print(sys.argv[1:])", "-v", "--help", "--", "x")
    assert done.stdout == "['-v', '--help', '--', 'x']\n"


def test_a_signal_reaches_the_command_itself(tmp_path):
    """The command has taken the place of `opsmith run`: there is no process between, and none is left."""
    code = "import os, signal, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    argv = [sys.executable, "-m", "opsmith", "run", "--", sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    with subprocess.Popen(argv, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
        assert time.monotonic() - started < 5


@pytest.mark.slow("starts an interpreter with torch")
def test_nothing_is_written_beside_the_command(below, tmp_path):
    below("python", "-c", "import torch.utils.cpp_extension")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("starts an interpreter with torch")
def test_an_isolated_interpreter_is_out_of_reach_as_the_page_says(below):
    code = "import torch.utils.cpp_extension as it; print(it.__name__)"
    assert below(sys.executable, "-E", "-c", code).stdout == "torch.utils.cpp_extension\n"
