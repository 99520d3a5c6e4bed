"""A candidate's process stands still until the clock runs, and from its answer on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from judging_kit.cells import cell_of

from opsmith.judging.cell import Batch, Cell, CellError
from opsmith.judging.processes import family
from opsmith.judging.standstill import Standstill


@pytest.fixture(autouse=True, scope="module")
def _is_exact() -> None:
    with cell_of("def f(x):\n    return x\n") as cell:
        if not cell.is_exact:
            pytest.skip(f"this machine does not have the wall: {cell.walls.missing[0]}")


def test_inputs_of_a_timed_call_are_not_there_before() -> None:
    text = """
import torch
def f(x):
    return x.clone()
"""
    with cell_of(text) as cell:
        shown, hidden = torch.ones(4), torch.full((4,), 2.0)
        cell.load([[shown], [hidden]], hidden_from=1)
        cell.run([0, 1])
        assert torch.equal(_given(cell, 0), shown)
        assert _given(cell, 1).isnan().all()
        done = cell.run([1, 0], is_timed=True)
        assert cell.process.standstill.is_on
        seen = _seen(cell, done, hidden)
        assert torch.equal(seen, hidden)
        assert cell.changed_inputs() == ""
        assert torch.equal(_given(cell, 1), shown)
        assert not cell.process.standstill.is_on


def _seen(cell: Cell, done: Batch, like: torch.Tensor) -> torch.Tensor:
    found = cell.seen(done, 0, [like])
    assert found is not None
    return found[0]


def _given(cell: Cell, number: int) -> torch.Tensor:
    (one,) = cell.give([number])[0]
    assert one is not None
    assert one.tensor is not None
    return one.tensor


@pytest.mark.parametrize(
    "result", ["x.t()", "x[:, ::2]", "x.expand(3, 4, 6)", "x[1:]", "x._neg_view()", "x[:0]"], ids=str
)
def test_results_are_seen_in_any_layout(result: str) -> None:
    with cell_of(f"import torch\ndef f(x):\n    return {result}\n") as cell:
        x = torch.randn(4, 6)
        cell.load([[x]], hidden_from=0)
        done = cell.run([0], is_timed=True)
        expected = eval(result)
        seen = _seen(cell, done, expected)
        assert torch.equal(seen, expected)


def test_nothing_is_computed_while_a_process_stands_still() -> None:
    text = """
import os, threading, time, torch
count = torch.zeros(1)
def work():
    while True:
        count.add_(1)
        time.sleep(0.0005)
threading.Thread(target=work, daemon=True).start()
if os.fork() == 0:
    time.sleep(600)
def f(x):
    return count
"""
    with cell_of(text) as cell:
        cell.load([[torch.zeros(1)]])
        done = cell.run([0], is_timed=True)
        seen = [float(_seen(cell, done, torch.zeros(1))) for _ in range(2)]
        time.sleep(0.05)
        seen.append(float(_seen(cell, done, torch.zeros(1))))
        assert seen == [seen[0]] * 3
        cell.process.go_on_for(0.05)
        assert float(_seen(cell, done, torch.zeros(1))) > seen[0]


_TIMER = """
import ctypes, platform, signal, struct, threading, time
libc = ctypes.CDLL(None)
signal.signal(signal.SIGCONT, lambda *_: None)
create, set_time = (222, 223) if platform.machine() == "x86_64" else (107, 110)
event = ctypes.create_string_buffer(struct.pack("QiI", 0, signal.SIGCONT, 0) + bytes(48))
number = ctypes.c_int()
assert libc.syscall(create, 1, event, ctypes.byref(number)) == 0
timer, often = number.value, ctypes.create_string_buffer(struct.pack("qqqq", 0, 5_000_000, 0, 3_000_000))
def work():
    while True:
        time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
def f(x):
    libc.syscall(set_time, timer, 0, often, None)
    return x
"""


def test_who_is_woken_by_a_timer_of_its_own_is_told() -> None:
    with cell_of(_TIMER) as cell:
        # A timer whose signal is waiting when the process is stopped loses that signal, and sends no other.
        with pytest.raises(CellError, match="it ran while it had to stand still"):
            for _ in range(50):
                cell.load([[torch.ones(1)]], hidden_from=0)
                cell.run([0], is_timed=True)
                time.sleep(0.1)
        assert not cell.is_alive


# The child has used a processor: when it is gone, what the family has used in sum is less than before.
_WITH_DECOY = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if child == 0:
    while time.process_time() < 0.5:
        pass
    time.sleep(600)
time.sleep(1)
while time.clock_gettime((~child << 3) | 2) < 0.5:
    time.sleep(0.01)
print(child, flush=True)
while True:
    pass
"""


def test_work_is_not_hidden_by_the_end_of_another_process() -> None:
    with _running(_WITH_DECOY) as worker:
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        standstill = Standstill(worker.pid)
        assert standstill.begin()
        assert standstill.has_held()
        os.kill(worker.pid, signal.SIGCONT)
        os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
        os.kill(worker.pid, signal.SIGSTOP)
        assert not standstill.has_held()


@pytest.mark.parametrize("is_woken", [True, False], ids=str)
def test_who_is_woken_for_a_moment_is_told_when_that_comes_again(is_woken: bool) -> None:
    # What does next to nothing itself may start a process that works and is gone before anybody looks.
    with _running("import time\nprint(flush=True)\ntime.sleep(600)\n") as sleeper:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        standstill, held = Standstill(sleeper.pid), []
        for _ in range(3):
            assert standstill.begin()
            if is_woken:
                os.kill(sleeper.pid, signal.SIGCONT)
                time.sleep(0.01)
                os.kill(sleeper.pid, signal.SIGSTOP)
                time.sleep(0.01)
            held.append(standstill.has_held())
            standstill.end()
        assert held[-1] is not is_woken


# One system call copies so much that it takes tens of milliseconds, and no signal stops it on its way.
_IN_ONE_CALL = """
import os
file = os.memfd_create("numbers")
content = bytearray(256 << 20)
os.write(file, content)
print(flush=True)
while True:
    os.preadv(file, [content], 0)
"""
# Threads that wait for work at full speed, as those of OpenMP do behind a call.
_SPINNING = """
import threading
print(flush=True)
threading.Thread(target=lambda: exec("while True: pass")).start()
while True:
    pass
"""


@pytest.mark.parametrize(("text", "holds"), [(_IN_ONE_CALL, False), (_SPINNING, True)], ids=["in a call", "spinning"])
def test_who_works_on_when_told_to_stop_is_told_and_who_only_runs_is_not(text: str, holds: bool) -> None:
    with _running(text) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        standstill, held = Standstill(worker.pid), []
        for _ in range(10):
            time.sleep(0.02)
            assert standstill.begin()
            held.append(standstill.has_held())
            standstill.end()
        assert held[-1] is holds


@contextmanager
def _running(text: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            for one in reversed(family(process.pid)):
                os.kill(one, signal.SIGKILL)


def test_places_that_are_none_are_not_read() -> None:
    text = """
import json
dumps = json.dumps
json.dumps = lambda message, **more: dumps({**message, "places": {"a": 1}} if "places" in message else message, **more)
def f(x):
    return x
"""
    with cell_of(text) as cell:
        cell.load([[torch.ones(1)]], hidden_from=0)
        assert cell.seen(cell.run([0], is_timed=True), 0, [torch.ones(1)]) is None


def test_who_waits_for_a_child_with_its_memory_stands_still_too() -> None:
    text = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
def start():
    if libc.syscall(58) == 0:  # vfork
        time.sleep(600)
import platform
if platform.machine() == "x86_64":
    threading.Thread(target=start, daemon=True).start()
    time.sleep(0.2)
def f(x):
    return x
"""
    with cell_of(text) as cell:
        cell.load([[torch.ones(1)]])
        assert cell.run([0], is_timed=True).error is None
        assert cell.process.standstill.is_on


def test_inputs_that_are_not_read_in_the_time_of_the_calls_are_told() -> None:
    text = """
import opsmith.judging.inside.devices as devices
devices.Cpu.touch = lambda self, area, nbytes=None: 0
def f(x):
    return x
"""
    with cell_of(text) as cell:
        cell.load([[torch.ones(1)]], hidden_from=0)
        with pytest.raises(CellError, match="does not read its inputs"):
            cell.run([0], is_timed=True)
