"""On a GPU: configurations of the examples are built side by side, timed, and the list serves the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest

ROWS = Path(__file__).parents[2] / "examples" / "triton" / "rows"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.compile,
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
]


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_list_is_written_and_used(phase: str, tmp_path: Path) -> None:
    copytree(ROWS, tmp_path / "rows")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    sizes = ("--size", "M=512,N=200", "--size", "M=512,N=4000", "--dtype", "float32", "--seconds", "10")
    print(run("-m", "opsmith", "tune", "rows::softmax", "--phase", phase, *sizes))
    name = "SOFTMAX" if phase == "forward" else "SOFTMAX_BACKWARD"
    definition = tmp_path / "rows" / "__init__.py"
    text = definition.read_text().replace("configs=CONFIGS", f"configs=[*tuned.{name}, *CONFIGS]")
    definition.write_text(text.replace("import opsmith\n", "import opsmith\n\nfrom . import tuned\n", 1))
    run("-m", "opsmith", "check", "rows", "--device", "cuda", "--property", "value", "--property", "gradient")
