"""The command line: what it refuses in one line, and a run that is killed and goes on to the bit."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from detection_kit.command import ARGV, CONFIG, environment, tiny_overrides
from opsmith_detection.data.digits import make_digits
from opsmith_detection.engine.checkpoint import load_checkpoint

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(find_spec("skimage") is None or find_spec("sklearn") is None, reason="needs scikit-image"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set of ten images in `digits`."""
    folder = tmp_path_factory.mktemp("run")
    make_digits(folder / "digits", images=10, size=(64, 64))
    return folder


def run(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ARGV, *arguments], env=environment(), capture_output=True, text=True, check=False, timeout=timeout
    )


@pytest.mark.slow("starts processes that import PyTorch")
def test_mistakes_are_told_in_a_line(folder: Path, tmp_path: Path):
    for arguments, said in (
        (("train", "solver.rat=1"), "solver.rat"),
        (("train", f"data.train={tmp_path}/a.json"), "make detect"),
        (("eval", "--checkpoint", str(tmp_path)), "has no checkpoint: train first"),
        (("train", "--device", "tpu"), "--device tpu is not"),
        (("train", "--config", CONFIG, *tiny_overrides(folder), "output=/proc/run"), "error: /proc/run"),
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert said in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.slow("trains three times")
def test_a_run_that_was_killed_goes_on_to_the_bit(folder: Path):
    solver = ["solver.steps=12", "solver.checkpoint_every=7", "solver.log_every=1", "solver.evaluate_every=12"]
    given = ["train", "--device", "cpu", "--config", CONFIG, *tiny_overrides(folder), *solver, "solver.ema=0.9"]
    whole = run(*given, f"output={folder}/whole")
    assert whole.returncode == 0, whole.stderr

    parts = folder / "parts"
    with subprocess.Popen([*ARGV, *given, f"output={parts}"], env=environment(), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while not (parts / "checkpoint-00000007.pt").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"

    refused = run(*given, f"output={parts}")
    assert refused.returncode == 1 and "--resume goes on with it" in refused.stderr
    resumed = run(*given, f"output={parts}", "--resume")
    assert resumed.returncode == 0 and "goes on after step 7" in resumed.stdout, resumed.stderr

    one, other = (load_checkpoint(path) for path in (folder / "whole", parts))
    assert one["step"] == other["step"] == 12
    for kind in ("model", "average", "optimizer"):
        torch.testing.assert_close(one[kind], other[kind], rtol=0, atol=0)
    assert one["loader"] == other["loader"]
    logs = [
        [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
        for path in (folder / "whole", parts)
    ]
    for log in logs:
        for entry in log:
            entry.pop("images_per_second", None)
    assert logs[0] == logs[1]

    report = (parts / "report.html").read_text()
    assert "data:image/jpeg;base64," in report and "loss_mask" in report and "optimizer" in report


@pytest.mark.slow("starts two processes that use a model")
def test_a_checkpoint_is_measured_and_used(folder: Path, tmp_path: Path):
    solver = ["solver.steps=2", "solver.evaluate_every=2", "solver.ema=null"]
    given = ["--device", "cpu", "--config", CONFIG, *tiny_overrides(folder), *solver, f"output={tmp_path}"]
    trained = run("train", *given)
    assert trained.returncode == 0, trained.stderr
    measured = run("eval", "--device", "cpu", "--checkpoint", str(tmp_path))
    values = dict(line.split() for line in measured.stdout.splitlines())
    logged = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert float(values["mask/AP50"]) == pytest.approx(logged["mask/AP50"], abs=1e-4)

    pictures = tmp_path / "found"
    source = str(folder / "digits" / "test")
    used = run(
        "predict",
        "--device",
        "cpu",
        "--threshold",
        "0",
        "--checkpoint",
        str(tmp_path),
        "--output",
        str(pictures),
        source,
    )
    assert used.returncode == 0 and "2 images in" in used.stdout and "images/s" in used.stdout, used.stderr
    assert sorted(path.name for path in pictures.iterdir()) == [
        "00001-00001.png",
        "00002-00002.png",
        "predictions.json",
    ]
    results = json.loads((pictures / "predictions.json").read_text())
    assert results and {result["image_id"] for result in results} <= {1, 2}
    assert set(results[0]) == {"image_id", "file_name", "category_id", "score", "bbox", "segmentation"}


@pytest.mark.slow("makes images and trains a small detector for half a minute")
def test_the_demo_learns_draws_and_fails_below_its_minimum(tmp_path: Path):
    solver = [
        "solver.steps=60",
        "solver.warm_up_steps=10",
        "solver.rate=4e-3",
        "solver.evaluate_every=60",
        "solver.log_every=10",
    ]
    given = [*solver, f"data.train={tmp_path}/digits/train.json", f"data.test={tmp_path}/digits/test.json"]
    done = run("demo", "--device", "cpu", "--images", "100", "--minimum", "0.99", *given, f"output={tmp_path}/run")
    assert done.returncode == 1 and "at least 0.99 was expected" in done.stderr, done.stderr
    assert len(list((tmp_path / "run" / "predictions").glob("*.png"))) == 20
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in logged if "loss" in entry]
    assert losses[-1] < 0.85 * losses[0]
    assert "mask/AP50" in logged[-1]
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()
    again = run("demo", "--device", "cpu", "--images", "100", "--minimum", "0", *given, f"output={tmp_path}/run")
    assert again.returncode == 0 and "goes on after step 60 of 60" in again.stdout, again.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("step 60")] == [
        line for line in again.stdout.splitlines() if line.startswith("step 60")
    ]


@pytest.mark.nightly("trains for minutes; make test-all has a shorter training")
def test_the_demo_passes(tmp_path: Path):
    given = [f"data.train={tmp_path}/digits/train.json", f"data.test={tmp_path}/digits/test.json"]
    done = run("demo", "--device", "cpu", *given, f"output={tmp_path}/run", timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
