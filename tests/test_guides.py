"""The guides are true: their files compile, their code runs, their sessions print what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from forks import python_c

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
# The pages whose files, code and sessions `guide_pages` runs.
PAGES = ("definitions", "gradients", "composing")

_RUN = "import sys; from pathlib import Path; from guide_pages import run_page; run_page(*map(Path, sys.argv[1:]))"


@pytest.mark.compile
@pytest.mark.parametrize("page", PAGES)
def test_a_guide_runs_from_top_to_bottom(page: str, tmp_path: Path):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "OPSMITH_BRIDGE": "wait", "PYTHONPATH": path}
    done = python_c(_RUN, [str(GUIDES / f"{page}.md"), str(tmp_path)], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
