"""Two processes train as one does: DistributedDataParallel, fully_shard, and tensors split over a mesh."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from compose_kit import ranks

from opsmith.ops.lltm import LLTMCell

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without torch.distributed"),
]


def run_pair(folder: Path, jobs: Sequence[str]) -> dict[str, str]:
    """Run jobs in two processes, one after the other up to one that fails; return what each said went wrong, or nothing."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", "compose_kit.ranks"]
    pair = [
        subprocess.Popen(
            [*argv, str(rank), str(folder / "store"), *jobs],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    said: dict[str, str] = {}
    for process in pair:
        output, errors = process.communicate(timeout=300)
        lines = [line for line in output.splitlines() if line.partition(" ")[0] in jobs]
        for line in lines:
            name, _, trouble = line.partition(" ")
            said[name] = said.get(name, "") + trouble
        if process.returncode != 0 and not any(said.values()):
            raise AssertionError(errors)
    return said


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run all jobs in as few processes as may be: starting one costs seconds."""
    # Built here, so that the processes do not wait for one another's compiler.
    LLTMCell(2, 4)(torch.ones(1, 2))
    found: dict[str, str] = {}
    while remaining := [name for name in ranks.JOBS if name not in found]:
        found |= run_pair(tmp_path_factory.mktemp("pair"), remaining)
    return found


@pytest.mark.slow("two processes, and one that Inductor compiles in")
@pytest.mark.parametrize("job", list(ranks.JOBS))
def test_two_processes_give_what_one_gives(job: str, said: dict[str, str]):
    assert said[job] == ""
