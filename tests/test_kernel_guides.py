"""The guides about kernels are true: their kernels compile, run and print what the pages show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from forks import python_c

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"

_RUN = "import sys; from pathlib import Path; from guide_pages import run_page; run_page(*map(Path, sys.argv[1:]))"

pytestmark = pytest.mark.compile


@pytest.mark.parametrize("page", ["cpu-kernels"])
def test_a_guide_about_kernels_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "OPSMITH_BRIDGE": "wait", "PYTHONPATH": path}
    done = python_c(_RUN, [str(GUIDES / f"{page}.md"), str(tmp_path)], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
