"""Compilations are shared by processes, where there can be some."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsmith.build.ahead.compile_kernels import producer
from opsmith.toolchain.resources import cpu_count

_TASKS = list(range(8))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "_cpu_count", lambda: 2)


def _square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def test_results_come_in_order_from_other_processes_and_each_call_has_its_own_function() -> None:
    for compile_one, wanted in ((_square, [n * n for n in _TASKS]), (lambda n: (-n, 0), [-n for n in _TASKS])):
        made = list(producer.compile_all(compile_one, _TASKS))
        assert [number for number, _ in made] == wanted
        assert os.getpid() not in {process for _, process in made}


def test_one_process_compiles_where_there_are_no_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /dev/shm cannot be written."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refuse)
    assert list(producer.compile_all(_square, _TASKS)) == [(n * n, os.getpid()) for n in _TASKS]


def test_cores_are_counted_without_opsmith(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folder = Path(producer.__file__).parents[1]
    program = "import sys\nfrom compile_kernels import producer\nprint(producer._cpu_count(), 'opsmith' in sys.modules)"
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False)
    assert done.stdout == f"{cpu_count()} False\n", done.stderr
