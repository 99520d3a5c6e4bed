"""On a GPU that several programs use, a candidate is not refused for the memory of another judgement."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from judging_kit.candidates import RIGHT, judged

from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Judgement

pytestmark = [pytest.mark.gpu, pytest.mark.whole_gpu]

_NEIGHBOUR = """
import sys, time, torch
from opsmith.judging.gpu_claims import claimed

claims, most, pause_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
with claimed(claims << 30, lambda: None):
    taken = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda")]
    print("ready", flush=True)
    while True:
        time.sleep(pause_s)
        if len(taken) < most:
            taken.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
        elif claims >= most:
            taken.clear()
            torch.cuda.empty_cache()
"""


@contextmanager
def neighbour(claimed_gib: int, most_gib: int, pause_s: float = 0.5) -> Iterator[subprocess.Popen[str]]:
    """Run another program on the GPU, which takes a GiB more after each pause, up to a limit.

    Where it claims so much, it gives all back then and begins again.
    """
    command = [sys.executable, "-c", _NEIGHBOUR, str(claimed_gib), str(most_gib), str(pause_s)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def judged_here(folder: Path, **options: float) -> Judgement:
    """Return the judgement of an honest candidate."""
    return judged(folder, RIGHT, device="cuda", call_seconds=20.0, load_seconds=60.0, memory_gib=16.0, **options)


def test_memory_that_another_judgement_claims_is_not_the_candidate_s(tmp_path: Path) -> None:
    with neighbour(8, 7):
        assert judged_here(tmp_path, gpu_memory_gib=1.0).as_posed.charges == ()
    # Which takes more than it says, for long enough: a candidate may be judged in two seconds, or start late.
    with neighbour(1, torch.cuda.mem_get_info()[1] >> 31, pause_s=0.3):
        assert judged_here(tmp_path, gpu_memory_gib=1.0).refusals == (Refusal.OVER_MEMORY,)


def test_a_judgement_waits_for_room(tmp_path: Path) -> None:
    total_gib = torch.cuda.mem_get_info()[1] >> 30
    begun_s = time.monotonic()
    with neighbour(total_gib - 10, 6) as other:
        threading.Timer(15.0, other.kill).start()
        assert judged_here(tmp_path).as_posed.charges == ()
        assert time.monotonic() - begun_s > 15


def test_what_a_judgement_had_is_given_back_with_its_claim(tmp_path: Path) -> None:
    before = torch.cuda.memory_reserved()
    assert judged_here(tmp_path).as_posed.charges == ()
    assert torch.cuda.memory_reserved() - before < 64 << 20
