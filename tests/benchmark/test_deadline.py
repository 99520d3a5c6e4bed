"""A limit that stops Python, programs that it has started, and nothing else."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from opsmith.benchmark.deadline import Deadline, OutOfTime, time_limit


def spin(seconds: float) -> None:
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        pass


def test_a_loop_is_stopped_and_the_signal_is_left_as_it_was():
    before = signal.getsignal(signal.SIGALRM)
    started = time.perf_counter()
    with pytest.raises(OutOfTime), time_limit(0.05):
        spin(30)
    assert time.perf_counter() - started < 10
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_what_swallows_exceptions_is_stopped_too():
    with pytest.raises(OutOfTime), time_limit(0.05):
        try:
            spin(30)
        except Exception:
            spin(30)


def test_a_limit_that_ends_in_a_callback_of_the_garbage_collector_is_not_lost():
    """Python drops an exception there, and pytest makes an error of the warning."""

    def slow(phase: str, info: dict[str, int]) -> None:
        spin(0.1)

    gc.callbacks.append(slow)
    started = time.perf_counter()
    try:
        with pytest.raises(OutOfTime), time_limit(0.05):
            gc.collect()
            spin(30)
    finally:
        gc.callbacks.remove(slow)
    assert time.perf_counter() - started < 10  # far from the 30 s, on a busy machine too


def test_a_program_that_was_started_ends():
    started = time.perf_counter()
    with pytest.raises(OutOfTime), time_limit(0.3):
        subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], check=False)
    assert time.perf_counter() - started < 30


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_what_a_program_has_started_ends_with_it_and_what_was_there_before_does_not(tmp_path: Path):
    note = tmp_path / "pid"
    before = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(OutOfTime), time_limit(0.5):
            subprocess.run(["sh", "-c", f"sleep 60 & echo $! > {note}; wait"], check=False)
        started = time.perf_counter()
        while is_running(int(note.read_text())) and time.perf_counter() - started < 10:
            time.sleep(0.01)
        assert not is_running(int(note.read_text()))
        assert before.poll() is None
    finally:
        before.kill()
        before.wait()


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_ends_in_time_is_not_stopped():
    with time_limit(60):
        spin(0.01)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_the_shorter_of_two_limits_counts():
    started = time.perf_counter()
    with pytest.raises(OutOfTime), time_limit(0.1), time_limit(60):
        spin(30)
    with pytest.raises(OutOfTime), time_limit(0.3):
        with pytest.raises(OutOfTime), time_limit(0.05):
            spin(30)
        spin(30)  # the outer limit is still there
    assert time.perf_counter() - started < 20


def test_in_another_thread_there_is_no_limit_and_no_error():
    done = []

    def work() -> None:
        with time_limit(0.001):
            spin(0.02)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_deadline_says_what_is_left(monkeypatch: pytest.MonkeyPatch):
    now = [10.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    deadline = Deadline(2.0)
    now[0] = 11.5
    assert deadline.left_s == 0.5
    now[0] = 13.0
    assert deadline.left_s == 0.0
