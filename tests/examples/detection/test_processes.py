"""Two processes of torchrun: they train as one does, share builds, and a run goes on after one of them has died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from detection_kit import ranks
from detection_kit.command import ARGV, CONFIG, environment, tiny_overrides
from opsmith_detection.data.digits import make_digits
from opsmith_detection.engine.checkpoint import load_checkpoint

pytestmark = [
    pytest.mark.compile,
    pytest.mark.slow("two processes under torchrun"),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without torch.distributed"),
]

ELASTIC = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
TORCHRUN = [*ELASTIC, "2", "-m"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all jobs in one pair of processes, which write what went wrong into the folder."""
    folder = tmp_path_factory.mktemp("jobs")
    done = subprocess.run(
        [*TORCHRUN, "detection_kit.ranks", str(folder)], env=environment(), capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    assert any(folder.glob("*.txt")), done.stderr
    return folder


@pytest.mark.parametrize("job", list(ranks.JOBS))
def test_two_processes_do_what_one_does(job: str, said: Path):
    found = [said / f"{job}-{rank}.txt" for rank in (0, 1)]
    assert [path.read_text() if path.exists() else "it did not get there" for path in found] == ["", ""]


@pytest.mark.parametrize(
    ("job", "count"),
    # The mean of six equal numbers may be another number, unlike that of two or four.
    [("ddp_goes_on_to_the_bit", 4), ("batch_norm_goes_on_to_the_bit", 6)],
)
def test_more_than_two_processes_go_on_to_the_bit(job: str, count: int, tmp_path: Path):
    done = run([*ELASTIC, str(count), "-m", "detection_kit.ranks", str(tmp_path), job])
    found = [tmp_path / f"{job}-{rank}.txt" for rank in range(count)]
    assert [path.read_text() if path.exists() else done.stderr for path in found] == [""] * count


def test_both_use_one_build(tmp_path: Path, empty_store: Path):
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/commands\nexec {os.environ.get("CXX", "g++")} "$@"\n')
    compiler.chmod(0o755)
    done = subprocess.run(
        [*TORCHRUN, "detection_kit.ranks", str(tmp_path), "build"], env={**environment(), "CXX": str(compiler)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    linked = [line for line in (tmp_path / "commands").read_text().splitlines() if "-shared" in line]
    assert len(linked) == 1, linked


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_graphs_on_two_gpus_train_and_end(tmp_path: Path):
    with_gpus = {name: value for name, value in environment().items() if name != "CUDA_VISIBLE_DEVICES"}
    if own := os.environ.get("CUDA_VISIBLE_DEVICES"):
        with_gpus["CUDA_VISIBLE_DEVICES"] = own
    done = subprocess.run(
        [*TORCHRUN, "detection_kit.ranks", str(tmp_path), "graphs"], env=with_gpus, capture_output=True, text=True,
        check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"graphs-{rank}.txt").read_text() for rank in (0, 1)] == ["", ""]


@pytest.mark.skipif(find_spec("skimage") is None or find_spec("sklearn") is None, reason="needs scikit-image")
@pytest.mark.nightly("trains three times with two processes: most of a minute")
def test_a_rank_that_dies_ends_the_job_and_resume_goes_on(tmp_path: Path):
    make_digits(tmp_path / "digits", images=30, size=(64, 64))
    everything = ["score_threshold=0", "detections=300", "candidates=480", "nms_iou=0.9"]  # so that some boxes fit
    solver = [
        "solver.steps=200",
        "solver.checkpoint_every=3",
        "solver.evaluate_every=200",
        "solver.log_every=1",
        "solver.rate=1e-5",
    ]
    given = [
        "train",
        "--device",
        "cpu",
        "--config",
        CONFIG,
        *tiny_overrides(tmp_path),
        *solver,
        *[f"model.box_head.{entry}" for entry in everything],
        f"output={tmp_path}/run",
    ]
    with (tmp_path / "said").open("w") as said:
        job = subprocess.Popen([*TORCHRUN, "opsmith_detection", *given], env=environment(), stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + 300
            while not (tmp_path / "run" / "checkpoint-00000003.pt").exists():
                assert job.poll() is None and time.monotonic() < deadline, (tmp_path / "said").read_text()
                time.sleep(0.01)
            victim = next(pid for pid in _children(job.pid) if _rank(pid) == "1")
            os.kill(victim, signal.SIGKILL)
            assert job.wait(timeout=120) != 0
        finally:
            job.kill()
    assert "Signal 9 (SIGKILL)" in (tmp_path / "said").read_text()
    left = load_checkpoint(tmp_path / "run")["step"]
    assert 3 <= left < 200

    done = run([*TORCHRUN, "opsmith_detection", *given, f"solver.steps={left + 2}", "--resume"])
    assert done.returncode == 0 and f"goes on after step {left} of {left + 2}" in done.stdout, done.stderr

    # What both have measured together is what one process measures.
    logged = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    measured = run([*ARGV, "eval", "--device", "cpu", "--checkpoint", f"{tmp_path}/run"])
    values = {name: float(value) for name, value in (line.split() for line in measured.stdout.splitlines())}
    assert logged["step"] == left + 2
    assert logged["box/AR100"] > 0
    for name in ("box/AR100", "mask/AR100"):
        assert logged[name] == pytest.approx(values[name], abs=1e-3)

    # One process has other batches than two: checkpoints are independent of that.
    done = run([*ARGV, *given, f"solver.steps={left + 4}", "--resume"])
    assert done.returncode == 0 and f"goes on after step {left + 2}" in done.stdout, done.stderr
    assert load_checkpoint(tmp_path / "run")["step"] == left + 4


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=300)


def _children(pid: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(path.parent.name)
        except OSError:
            continue


def _rank(pid: int) -> str | None:
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((v.removeprefix(b"RANK=").decode() for v in variables if v.startswith(b"RANK=")), None)
