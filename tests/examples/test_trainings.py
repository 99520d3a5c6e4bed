"""The programs in examples/training: they train, every build alike, and print and draw what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import opsmith
from forks import python_c

FOLDER = Path(__file__).parents[2] / "examples" / "training"

# Not imported here: that takes seconds, and the programs do it themselves.
MISSING = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]
pytestmark = [pytest.mark.compile, pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")]


# Runs a program once for each list of arguments, in a process that imports everything once.
PROGRAM = """
import json, runpy, sys

program, runs = sys.argv[1], json.loads(sys.argv[2])
sys.path.insert(0, program.rpartition("/")[0])
for arguments in runs:
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
"""


def run(program: str, *runs: list[str]) -> str:
    paths = [str(Path(opsmith.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = python_c(PROGRAM, [str(FOLDER / program), json.dumps(runs)], env=env, timeout_s=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(program: str, *arguments: str) -> list[dict[str, Any]]:
    """Train with the kernels and with their definitions, for one epoch in float64.

    There rounding stays far below what a wrong kernel does, however long two trainings go on.
    """
    given = ["--epochs", "1", "--dtype", "float64", *arguments]
    printed = run(program, *(["--only", variant, *given] for variant in ("jit", "reference")))
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.slow("trains a network twice")
@pytest.mark.parametrize(
    ("program", "steps", "largest"),
    [
        ("digits.py", 25, 2.4),
        *(
            pytest.param(*one, marks=pytest.mark.nightly("trains a network twice; make test-all has another one"))
            for one in [("characters.py", 15, 5.0), ("perceptron.py", 85, 2.5)]
        ),
    ],
)
def test_kernels_and_definition_learn_alike(program: str, steps: int, largest: float) -> None:
    ours, reference = (result["losses"]["loss"] for result in train(program, "--steps", str(steps)))
    assert ours == pytest.approx(reference, rel=1e-9)
    assert ours[0] < largest
    assert ours[-1] < 0.95 * ours[0]


@pytest.mark.slow("trains a network twice")
def test_two_networks_learn_alike_with_kernels_and_definitions() -> None:
    ours, reference = train("gan.py", "--steps", "2")
    for name in ("loss of the discriminator", "loss of the generator"):
        assert len(ours["losses"][name]) == 2
        assert ours["losses"][name] == pytest.approx(reference["losses"][name], rel=1e-9)
    assert ours["pictures"] == reference["pictures"]
    assert list(ours["pictures"]) == ["before", "1 epoch", "real"]
    assert ours["pictures"]["before"] != ours["pictures"]["1 epoch"]


@pytest.mark.nightly("trains a network; others are trained for each change")
def test_what_was_drawn_becomes_a_picture(tmp_path: Path) -> None:
    plot = tmp_path / "curves.png"
    printed = run("gan.py", ["--build", "reference", "--epochs", "1", "--steps", "1", "--plot", str(plot)])
    assert "last loss of the generator" in printed and f"reference has drawn is in {tmp_path}" in printed
    for file in (plot, tmp_path / "curves-reference.png"):
        assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly("trains a network twice; others are trained for each change")
def test_builds_train_alike_and_stand_side_by_side(tmp_path: Path) -> None:
    plot = tmp_path / "digits.png"
    given = ["--build", "jit", "--build", "cmake", "--epochs", "1", "--steps", "10", "--plot", str(plot)]
    printed = run("digits.py", given)
    rows = {line.split("  ")[0]: line.split() for line in printed.splitlines()}
    assert rows["jit"][-2:] == rows["cmake"][-2:]
    assert rows["nn.LSTM"][-2:] != rows["jit"][-2:]
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow("starts a training in a process of its own")
def test_an_unknown_build_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "digits.py"), "--build", "ninja"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--build" in done.stderr
