"""Shells complete commands, options, and values with blanks as they have to be written, without importing torch."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner

from opsmith.benchmark.competitors import MODES, PHASES
from opsmith.checker.properties.table import PROPERTIES
from opsmith.cli import _COMMANDS, _HIDDEN, _cli
from opsmith.cli import completion as offered
from opsmith.spec.dtypes import DTYPES


def completions(*words: str, shell: str = "zsh") -> list[tuple[str, str]]:
    """Return the type and the value of what is offered for the last word."""
    kind = get_completion_class(shell)
    assert kind is not None
    *before, incomplete = words
    found = kind(_cli, {}, "opsmith", "_OPSMITH_COMPLETE").get_completions(list(before), incomplete)
    return [(item.type, item.value) for item in found]


def values(*words: str) -> list[str]:
    return [value for _, value in completions(*words)]


def test_commands_are_offered_but_not_those_for_cmake():
    assert values("") == [name for name in _COMMANDS if name not in _HIDDEN]
    assert values("che") == ["check"]
    assert values("cache", "key", "t") == ["trust"]


def test_options_are_offered():
    assert values("check", "smooth", "--prop") == ["--property"]
    assert "--compare" in values("bench", "smooth", "--")


def test_values_that_are_known_are_offered():
    assert values("check", "smooth", "--property", "se") == ["second gradient"]
    assert values("check", "smooth", "--property", "") == list(offered.PROPERTIES)
    assert values("bench", "smooth", "--phase", "") == list(PHASES)
    assert values("completion", "") == ["bash", "zsh", "fish"]
    assert values("help", "k") == ["kernel"]


def test_what_names_operators_is_completed_as_a_file():
    for command in ("build", "check", "bench", "profile", "stub", "editor"):
        assert completions(command, "src/op") == [("file", "src/op")]


def test_the_values_are_those_that_exist():
    assert tuple(item.name for item in PROPERTIES) == offered.PROPERTIES
    assert set(offered.VALUES["dtype"]) <= set(DTYPES)
    assert set(MODES) <= set(offered.VALUES["against"])
    assert offered.VALUES["phase"] == PHASES


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_defines_what_the_shell_calls(shell):
    done = CliRunner().invoke(_cli, ["completion", shell])
    assert done.exit_code == 0
    assert f"_OPSMITH_COMPLETE={shell}_complete" in done.output
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=done.output, text=True, check=True)


_ASK = """
source script
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _opsmith_completion opsmith; }
ask opsmith che; printf '%s\\n' "${COMPREPLY[@]}"
ask opsmith check smooth --property special; printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completes_a_command_and_a_value_with_a_blank(tmp_path: Path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash on this machine")
    (tmp_path / "script").write_text(CliRunner().invoke(_cli, ["completion", "bash"]).output)
    program = tmp_path / "opsmith"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:] = {sys.path!r}\nfrom opsmith.cli import main\n"
        "try:\n    main()\nfinally:\n    assert 'torch' not in sys.modules\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", _ASK], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["check", r"special\ values"], done.stderr
    assert done.stderr == ""
