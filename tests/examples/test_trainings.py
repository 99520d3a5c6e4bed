"""The programs in examples/training: they train, every build alike, and print and draw what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opsmith

FOLDER = Path(__file__).parents[2] / "examples" / "training"

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

pytestmark = pytest.mark.compile


def run(program: str, *arguments: str) -> str:
    paths = [str(Path(opsmith.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, str(FOLDER / program), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(program: str, variant: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(program, "--only", variant, "--epochs", "1"))
    return result


@pytest.mark.slow
@pytest.mark.parametrize(("program", "largest"), [("digits.py", 2.4), ("characters.py", 5.0), ("perceptron.py", 2.5)])
def test_kernels_and_definition_learn_alike(program: str, largest: float) -> None:
    ours, reference = train(program, "jit"), train(program, "reference")
    # A difference by rounding grows from step to step, as each starts from the weights of the last.
    assert ours["losses"][:20] == pytest.approx(reference["losses"][:20], rel=1e-3)
    assert ours["losses"] == pytest.approx(reference["losses"], rel=1e-2)
    assert ours["losses"][0] < largest
    assert ours["losses"][-1] < 0.95 * ours["losses"][0]
    assert len(ours["scores"]) == 1


@pytest.mark.slow
def test_builds_train_alike_and_stand_side_by_side(tmp_path: Path) -> None:
    plot = tmp_path / "digits.png"
    printed = run("digits.py", "--build", "jit", "--build", "cmake", "--epochs", "1", "--plot", str(plot))
    rows = {line.split("  ")[0]: line.split() for line in printed.splitlines()}
    assert rows["jit"][-2:] == rows["cmake"][-2:]
    assert rows["nn.LSTM"][-2:] != rows["jit"][-2:]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_build_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "digits.py"), "--build", "ninja"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--build" in done.stderr
