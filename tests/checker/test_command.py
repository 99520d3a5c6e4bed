"""`opsmith check`: exit codes, what it prints in a log and in a terminal, and the ways to name an operator."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opsmith.cli.check import command
from some import some

KIT = Path(__file__).parent / "kit_screen"
QUICK = ("--dtype", "float32", "--property", "value", "--property", "sizes")

pytestmark = pytest.mark.compile


def check(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def test_an_operator_that_is_right_exits_with_0():
    lines = check(f"{KIT}/operators.py::right", *QUICK).output.splitlines()
    assert lines[0].split() == ["kit_screen.right", "cpu"]
    assert [line.split() for line in lines[1:4]] == [["f32"], ["value", "✓"], ["sizes", "✓"]]
    assert lines[-1].startswith("all 2 properties hold · 2 checks of ")


def test_an_operator_that_is_wrong_exits_with_1():
    output = check(f"{KIT}/operators.py::wrong", *QUICK, code=1).output
    assert "✗ value, cpu, float32: " in output
    assert "1 of 2 properties failed" in output


@pytest.mark.slow("checks of several operators")
def test_a_folder_stands_for_all_that_it_declares():
    output = check(KIT, "--dtype", "float32", "--property", "empty").output
    for name in ("right", "wrong", "wrong_tail", "crashing", "hanging"):
        assert f"kit_screen.{name} " in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module"], "no module or folder no_such_module"),
        ([f"{KIT}/operators.py::none"], "has no 'none'; it declares right, wrong"),
        ([f"{KIT}/operators.py::right", "--property", "x"], "unknown property 'x'"),
        ([f"{KIT}/operators.py::right", "--dtype", "int9"], "unknown element type 'int9'"),
        ([f"{KIT}/operators.py::right", "--dtype", "int32"], "is not checked in int32"),
        ([f"{KIT}/operators.py::right", "--device", "tpu"], "cannot be checked on tpu"),
        ([f"{KIT}/operators.py", "--reference", "torch:sin"], "--reference is for one operator"),
        (["torch.ops.no_such.operator"], "PyTorch has no torch.ops.no_such.operator: check its spelling"),
        (["torch.ops.aten.sin"], "has several overloads"),
        (["torch.ops.aten.sin.default"], "has no reference to compare it with"),
        (["torch.ops.aten.sin.default", "--reference", "torch"], "write it as module:function"),
        (["torch.ops.aten.sin.default", "--reference", "torch:no_such"], "torch has no no_such"),
        (["torch.ops.aten.sin.default", "--import", "no_such_module"], "--import no_such_module"),
        ([f"{KIT}/operators.py::right", "--html", f"{KIT}/operators.py/page.html"], "page.html cannot be written: "),
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments: list[str], message: str):
    output = " ".join(check(*arguments, code=2).output.split())
    assert message in output


@pytest.mark.slow("a whole check")
def test_an_operator_of_torch_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "check_user.py").write_text(FOREIGN)
    monkeypatch.chdir(tmp_path)
    torch_op = ["torch.ops.opsmith_check_command.twice", "--import", "check_user", "--property", "value"]
    assert check(*torch_op, "--reference", "check_user:reference").output.startswith("opsmith_check_command.twice ")
    check(*torch_op, "--reference", "check_user:other", "--examples", "check_user:examples", code=1)
    # By the name that the module gives it.
    check("check_user.py::twice", "--property", "value", "--reference", "check_user:reference")


FOREIGN = """
import torch
from jaxtyping import Float
from torch import Tensor

@torch.library.custom_op("opsmith_check_command::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x + x

def reference(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x

def other(x):
    return 3 * x

def examples():
    yield (torch.ones(3),)
"""


def test_json():
    found = json.loads(check(f"{KIT}/operators.py::wrong", *QUICK, "--json", code=1).stdout)
    assert found["ok"] is False
    assert found["machine"].keys() == {"opsmith", "torch", "python", "system", "processor", "cores", "gpu"}
    (operator,) = found["operators"]
    assert operator["name"] == "kit_screen.wrong"
    assert operator["failed"] == ["value"]
    assert operator["columns"] == {"cpu": ["float32"]}
    (value, sizes) = operator["results"]
    assert (value["property"], value["device"], value["dtype"], value["state"]) == ("value", "cpu", "float32", "failed")
    assert value["findings"][0]["case"]["arguments"]["x"]["shape"] == [1, 1]
    assert sizes["state"] == "not run"  # what is wrong for ordinary values says nothing about sizes
    assert sizes["findings"] == []


@pytest.mark.slow("a whole check")
def test_a_page(tmp_path: Path):
    page = tmp_path / "new" / "report.html"
    check(f"{KIT}/operators.py::wrong", *QUICK, "--html", page, code=1)
    text = page.read_text(encoding="utf-8")
    assert "1 of 1 operator failed" in text
    assert "from kit_screen.operators import wrong" in text


@pytest.mark.slow("a whole check")
def test_each_result_has_a_line_when_asked_for():
    argv = [sys.executable, "-m", "opsmith", "check", f"{KIT}/operators.py::right", *QUICK, "-v"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "opsmith  kit_screen.right  ✓ value, cpu float32  " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("has_colour", some([True, False], 0, "a whole check in a terminal", at_most=1))
def test_in_a_terminal(has_colour: bool):
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    env.pop("NO_COLOR", None)
    if not has_colour:
        env["NO_COLOR"] = "1"
    screen = in_terminal([sys.executable, "-m", "opsmith", "check", f"{KIT}/operators.py::wrong", *QUICK], env)
    # While it runs the table is drawn again and again, with what is tried below.
    assert "value, cpu float32" in screen
    assert screen.count("kit_screen.wrong") >= 2
    assert "1 of 2 properties failed" in screen
    assert ("\x1b[1;31m✗" in screen) == has_colour


def in_terminal(argv: list[str], env: dict[str, str]) -> str:
    """Run a command in a terminal of its own and return all that it wrote there."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, env=env, close_fds=True)
    os.close(terminal)
    parts = []
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(controller)
    assert process.wait() == 1
    return b"".join(parts).decode()
