"""A call of a task's that no signal ends, one of C++, ends in a verdict of the command, and a batch goes on after it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from opsmith.judging import watchdog
from opsmith.judging.batch import LOG_NAME
from opsmith.judging.watchdog import watching

# A mutex is locked twice: the second time waits for ever, and goes on waiting after a signal.
_TASK = """
import ctypes, torch
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
calls = []
class Model(torch.nn.Module):
    def forward(self, x):
        calls.append(1)
        if len(calls) > {least}:
            library.pthread_mutex_lock(mutex)
            library.pthread_mutex_lock(mutex)
        return torch.relu(x)
def get_inputs(): return [torch.randn(4, 8)]
"""
_RIGHT = "import torch\nModelNew = torch.nn.ReLU\n"
_OPTIONS = ("--call-seconds", "1", "--load-seconds", "3", "--no-time", "--no-operator", "--device", "cpu")


def command(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run `opsmith judge`."""
    told = [sys.executable, "-m", "opsmith", "judge", *map(str, arguments), *_OPTIONS]
    return subprocess.run(told, capture_output=True, text=True, check=False, timeout=240)


def test_what_does_not_end_is_acted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_GRACE_S", 0.0)
    monkeypatch.setattr(watchdog, "_LOOK_S", 0.01)
    acted = threading.Event()
    with watching(0.05, acted.set):
        assert acted.wait(10)
    acted.clear()
    with watching(30.0, acted.set):
        pass
    until_s = time.monotonic() + 10
    while any(one.name == "opsmith-judge-watchdog" for one in threading.enumerate()):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    assert not acted.is_set()


@pytest.mark.slow("waits for a call that does not come back")
@pytest.mark.parametrize(("least", "message"), [(0, "it is not read within 3 s"), (40, "does not return within")])
def test_a_call_that_does_not_come_back_is_a_verdict(least: int, message: str, tmp_path: Path) -> None:
    task, candidate = tmp_path / "waits.py", tmp_path / "candidate.py"
    task.write_text(_TASK.format(least=least))
    candidate.write_text(_RIGHT)
    done = command(task, candidate, "--json", "--html", tmp_path / "page.html")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    (charge,) = found["task_charges"]
    assert charge["refusal"] == "slow reference"
    assert message in charge["message"]
    assert not found["ok"]
    assert "waits" in (tmp_path / "page.html").read_text()


@pytest.mark.slow("waits for calls that do not come back")
@pytest.mark.parametrize("least", [0, 40])
def test_a_batch_goes_on_after_it(least: int, tmp_path: Path) -> None:
    tasks, candidates = tmp_path / "tasks", tmp_path / "candidates"
    for folder in (tasks, candidates):
        folder.mkdir()
    for name, text in (("a", _TASK.format(least=least)), ("b", _TASK.format(least=1 << 30))):
        (tasks / f"{name}.py").write_text(text)
        (candidates / f"{name}.py").write_text(_RIGHT)
    done = command(tasks, "--batch", candidates)
    assert done.returncode == 3, done.stderr
    lines = [json.loads(line) for line in (candidates / LOG_NAME).read_text().splitlines()]
    assert [one["judgement"]["ok"] for one in lines if "judgement" in one] == [False, True]
    assert [(one["run"]["judged"], one["run"]["resumed"]) for one in lines if "run" in one] == [(1, 1)]
