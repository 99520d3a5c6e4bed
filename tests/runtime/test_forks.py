"""fork() at the worst of times: the child of a data loader works, whatever the threads of its parent were doing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forks import python_c
from opsmith import _forks
from opsmith._forks import Lock, hold_off_forks
from some import some

# It answers questions as ever, and compiles once there is a file `go`.
_COMPILER = """#!/bin/sh
case " $* " in *" -c "*) touch {folder}/compiling; while [ ! -e {folder}/go ]; do sleep 0.02; done;; esac
exec g++ "$@"
"""

_MODULE = """#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "forked", "", -1};
PyMODINIT_FUNC PyInit_forked() { return PyModule_Create(&definition); }
"""

_START = """
import os, signal, sys, threading, time
from pathlib import Path
import torch
from opsmith import load
from opsmith.ops.sigmoid import sigmoid

folder = Path(sys.argv[1])
torch.set_num_threads(1)

def first_call():
    assert sigmoid(torch.zeros(3)).tolist() == [0.5] * 3

def first_load():
    assert load("forked", folder / "forked.cpp").__name__ == "forked"

work = globals()[sys.argv[2]]

def begin():
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait_for("compiling")
    return thread

def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.01)
"""


@pytest.fixture
def run(tmp_path: Path, empty_store: Path) -> Callable[[str, str], str]:
    """Return a function that runs a program while a thread of its process builds; it gets what the thread does."""

    def run(program: str, work: str) -> str:
        compiler = tmp_path / "patient-c++"
        compiler.write_text(_COMPILER.format(folder=tmp_path))
        compiler.chmod(0o755)
        (tmp_path / "forked.cpp").write_text(_MODULE)
        env = {**os.environ, "CXX": str(compiler)}
        done = python_c(_START + program, [str(tmp_path), work], env=env, timeout_s=100)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.parametrize("work", some(["first_call", "first_load"], 1, "processes that import torch"))
def test_a_child_calls_what_a_thread_of_its_parent_builds(run: Callable[[str, str], str], work: str) -> None:
    program = """
thread = begin()
child = os.fork()
if child == 0:
    work()
    os._exit(7)
time.sleep(0.3)  # the child waits for the one that builds
(folder / "go").touch()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(program, work) == "7"


@pytest.mark.parametrize("work", some(["first_call", "first_load"], 1, "processes that import torch"))
def test_a_child_builds_what_its_parent_did_not_live_to_end(run: Callable[[str, str], str], work: str) -> None:
    """The lock of a build is released when its process ends, even if a child has the same descriptor."""
    program = """
parent = os.fork()
if parent == 0:
    os.setpgid(0, 0)
    begin()
    if os.fork() == 0:
        os.setpgid(0, 0)
        (folder / "waiting").touch()
        work()
        (folder / "done").touch()
        os._exit(0)
    time.sleep(60)
wait_for("waiting")
time.sleep(0.3)
os.killpg(parent, signal.SIGKILL)
os.waitpid(parent, 0)
(folder / "go").touch()
wait_for("done")
print("done")
"""
    assert run(program, work) == "done"


def test_a_lock_of_another_thread_is_free_in_a_child() -> None:
    lock, held, done = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    assert _status(lock.__enter__) == 7
    done.set()
    thread.join()


def test_a_lock_of_the_forking_thread_stays_held() -> None:
    lock = Lock()
    with lock, lock:
        child = os.fork()
        if child == 0:
            taken = threading.Event()
            threading.Thread(target=lambda: (lock.__enter__(), taken.set()), daemon=True).start()
            was_free = taken.wait(0.2)
    if child == 0:
        os._exit(7 if not was_free and taken.wait(10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_fork_waits_for_what_must_not_be_left_half_done() -> None:
    steps = []

    def work() -> None:
        with hold_off_forks():
            steps.append("begun")
            time.sleep(0.3)
            steps.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    while not steps:
        time.sleep(0.01)
    assert _status(lambda: steps == ["begun", "done"] or os._exit(1)) == 7
    thread.join()


def test_a_fork_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forks, "_PATIENCE_S", 0.1)
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        with hold_off_forks():
            begun.set()
            done.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(30)
    assert _status(hold_off_forks().__enter__) == 7
    done.set()
    thread.join()
    with hold_off_forks():  # the parent's is as it was
        pass


def _status(work: Callable[[], object]) -> int:
    """Return the exit status of a child that does some work: 7, unless it fails or hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(7)
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        if (ended := os.waitpid(child, os.WNOHANG)) != (0, 0):
            return os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1
