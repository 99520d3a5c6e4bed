"""Work in the background is done once, at low priority, and never an error of the foreground."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from opsmith._background import do_quietly, start_in_background
from opsmith.errors import StoreError


def test_the_work_is_done_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "the_work.py").write_text(
        "import os, sys\nfrom pathlib import Path\nfrom opsmith._background import do_quietly\n"
        "def work(): Path(sys.argv[1]).write_text(f'{os.getsid(0)} {os.getppid()}')\n"
        "do_quietly(work, lock=Path(sys.argv[1] + '.lock'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = tmp_path / "done"
    start_in_background("the_work", str(done), lock=tmp_path / "done.lock")
    deadline = time.monotonic() + 60
    while not (done.exists() and done.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert int(done.read_text().split()[0]) != os.getsid(0), "it would end with the terminal"


def test_it_starts_where_python_cannot_give_it_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spawn = os.posix_spawn
    started: list[int] = []

    def spawn_of_old_glibc(*arguments: Any, **keywords: Any) -> int:
        if "setsid" in keywords:
            raise NotImplementedError("The `setsid` argument is not supported on this platform.")
        started.append(spawn(*arguments, **keywords))
        return started[0]

    monkeypatch.setattr(os, "posix_spawn", spawn_of_old_glibc)
    start_in_background("this", lock=tmp_path / "lock")
    (child,) = started
    assert os.getpgid(child) == child, "Ctrl-C would end it"
    os.waitpid(child, 0)


def test_nothing_starts_where_another_is_at_it_or_the_lock_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    holder = [sys.executable, "-c", f"from filelock import FileLock\nwith FileLock({str(lock)!r}): print(1); input()"]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        monkeypatch.setattr(os, "posix_spawn", lambda *_, **__: pytest.fail("a process was started"))
        start_in_background("opsmith", lock=lock)
        process.communicate("\n")
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    start_in_background("opsmith", lock=blocked / "lock")


def test_nothing_starts_where_the_file_system_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process would start the work again until it is done, or never again if one was killed at it."""

    def no_lock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", no_lock)
    monkeypatch.setattr(os, "posix_spawn", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setattr(os, "nice", lambda by: 0)
    start_in_background("opsmith", lock=tmp_path / "lock")
    do_quietly(lambda: pytest.fail("the work was done"), lock=tmp_path / "lock")


def test_a_failure_of_the_work_is_silent_and_the_lock_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda by: 0)
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise StoreError("no")

    do_quietly(work, lock=tmp_path / "lock")
    assert calls == [1]
    with FileLock(tmp_path / "held"):
        do_quietly(work, lock=tmp_path / "held")
    assert calls == [1]
