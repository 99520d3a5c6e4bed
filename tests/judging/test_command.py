"""`opsmith judge` prints a judgement, writes it, and ends with a code that says what it came to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opsmith.cli.judge import command
from opsmith.judging.result import Judgement

_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""
_RIGHT = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {result}\n"
_QUICK = ("--no-time", "--threads", "1", "--seconds", "20")


def run(folder: Path, result: str, *options: str, inputs: str = "torch.randn(8, 16)") -> Result:
    """Judge a candidate for ReLU."""
    (folder / "relu.py").write_text(_PROBLEM.format(inputs=inputs))
    (folder / "fast.py").write_text(_RIGHT.format(result=result))
    return CliRunner().invoke(command, [str(folder / "relu.py"), str(folder / "fast.py"), *_QUICK, *options])


def test_an_accepted_candidate_ends_with_0(tmp_path: Path) -> None:
    done = run(tmp_path, "x.clamp(min=0)", "--html", str(tmp_path / "out" / "page.html"), "-v")
    assert done.exit_code == 0, done.output
    assert "✓ as posed: accepted" in done.output
    assert "accepted as posed and as an operator" in done.output
    page = (tmp_path / "out" / "page.html").read_text()
    assert "fast for relu" in page
    assert "<script" not in page


def test_a_refused_one_ends_with_1_and_its_reason(tmp_path: Path) -> None:
    done = run(tmp_path, "x", "--no-operator", "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 1
    assert "wrong values (as posed)" in done.output
    assert "refused as posed" in done.output
    assert "wrong values" in (tmp_path / "page.html").read_text()


def test_an_error_of_the_judge_ends_with_4_and_charges_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("opsmith.judging.run.run_judge", fail)
    done = run(tmp_path, "x.clamp(min=0)", "--json")
    assert done.exit_code == 4
    found = Judgement.from_json(done.stdout)
    assert found.failure.startswith("MemoryError: no room (test_command.py, line")
    assert (found.ok, found.refusals) == (False, ())
    assert "Traceback" in done.stderr
    text = run(tmp_path, "x.clamp(min=0)").stdout
    assert "nothing is known: the judge failed" in text


def test_json_is_all_that_is_printed(tmp_path: Path) -> None:
    done = run(tmp_path, "x.clamp(min=0)", "--no-operator", "--json", "--seed", "5")
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert found["seed"] == 5
    assert found["as_posed"]["state"] == "accepted"
    assert found["walls"]["in_force"]


def test_the_operator_can_be_what_counts(tmp_path: Path) -> None:
    only = "torch.where(torch.ones(8, 16, dtype=torch.bool), x.clamp(min=0), x)"
    assert run(tmp_path, only).exit_code == 0
    done = run(tmp_path, only, "--require", "operator")
    assert done.exit_code == 1
    assert "accepted as posed, not as an operator" in done.output


def test_a_task_that_says_nothing_ends_with_3(tmp_path: Path) -> None:
    done = run(tmp_path, "x.clamp(min=0)", "--no-operator", inputs="torch.zeros(8, 16)")
    assert done.exit_code == 3, done.output
    assert "the task is refused" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{task}"], "give one candidate"),
        (["{task}", "{task}", "--batch", "."], "give one candidate"),
        (["{task}", "{task}", "--log", "x"], "--log belongs to --batch"),
        (["{task}", "none.py"], "does not exist"),
        (["none/task.py", "{task}"], "there is no task"),
        (["{task}", "{task}", "--seconds", "0"], "more than 0"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    task = tmp_path / "relu.py"
    task.write_text(_PROBLEM.format(inputs="torch.randn(8, 16)"))
    done = CliRunner().invoke(command, [one.format(task=task) for one in arguments])
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_a_reference_that_ends_the_judge_is_shown(tmp_path: Path) -> None:
    problem = "import ctypes\n" + _PROBLEM.format(inputs="torch.randn(8, 16)")
    path = tmp_path / "relu.py"
    path.write_text(problem.replace("return torch.relu(x)", "return torch.relu(x) if len(x) else ctypes.string_at(0)"))
    (tmp_path / "fast.py").write_text(_RIGHT.format(result="x.clamp(min=0)"))
    words = [sys.executable, "-m", "opsmith", "judge", str(path), str(tmp_path / "fast.py"), *_QUICK]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert f'"{path}", line 6 in forward' in done.stderr
