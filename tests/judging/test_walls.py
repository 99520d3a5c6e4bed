"""Walls stop what a candidate must not do, each by itself where a machine lacks others, and let programs do their work."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from judging_kit.cells import answer, cell_of

from opsmith.judging.cell import Cell
from opsmith.judging.inside import sieve
from opsmith.judging.inside.system_calls import number_of

_NO_WALLS = "this machine does not have the wall"


# What a candidate tries, as the body of a function that raises OSError where it is stopped.
FORBIDDEN = {
    "a file of its own": "open('candidate.py', 'w')",
    "a file outside": "open({outside!r}, 'w')",
    "a folder outside": "os.mkdir({outside!r})",
    "its own memory": "open('/proc/self/mem', 'r+b')",
    "the memory of the judge": "open('/proc/{judge}/mem', 'rb')",
    "the environment of the judge": "open('/proc/{judge}/environ').read()",
    "a signal to the judge": "os.kill({judge}, 0)",
    "a connection": "socket.create_connection(('127.0.0.1', 9), timeout=1)",
    "a socket of the internet": "socket.socket(socket.AF_INET)",
    "a socket that has a name in a folder": "socket.socket(socket.AF_UNIX).connect({named!r})",
    "a message to such a socket": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', {named!r})",
    "a pair that sends to others": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "an address of its own for each message": "socket.socketpair()[0].sendto(b'x', {named!r})",
    "the mode of a file outside": "os.chmod({kept!r}, 0)",
    "the times of a file outside": "os.utime({kept!r})",
    "an attribute of a file outside": "os.setxattr({kept!r}, 'user.x', b'')",
    "the length of a file outside": "os.truncate({kept!r}, 0)",
    "tracing": "check(libc.ptrace(0, 0, 0, 0))",
    "another process's memory": "check(libc.process_vm_readv({judge}, 0, 0, 0, 0, 0))",
    "a namespace of users": "check(libc.unshare(0x10000000))",
    "a child in a namespace of users": "check(libc.syscall({clone}, 0x10000000 | 17, 0, 0, 0, 0))",
    "a child of its parent": "check(libc.syscall({clone}, 0x8000 | 17, 0, 0, 0, 0))",
    "a child in ways that no filter reads": "check(libc.syscall(435, 0, 0))",
}


@pytest.mark.parametrize("name", list(FORBIDDEN))
def test_walls_stop(name: str, walled: Cell, tmp_path: Path) -> None:
    if walled.walls.missing:
        pytest.skip(f"{_NO_WALLS}: {walled.walls.missing[0]}")
    kept, named = tmp_path / "kept", tmp_path / "named"
    kept.write_text("kept")
    before = kept.stat()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if "message" in name else socket.SOCK_STREAM) as listener:
        listener.bind(str(named))
        if "message" not in name:
            listener.listen()
        places = {"outside": str(tmp_path / "made"), "kept": str(kept), "named": str(named)}
        attempt = FORBIDDEN[name].format(**places, judge=os.getpid(), clone=number_of("clone"))
        assert answer(walled, torch.tensor(list(attempt.encode()), dtype=torch.uint8)).tolist() == [1]
    assert not (tmp_path / "made").exists()
    assert (kept.stat().st_mode, kept.stat().st_mtime_ns, kept.read_text()) == (
        before.st_mode,
        before.st_mtime_ns,
        "kept",
    )


def test_what_programs_do_in_their_own_folder_is_left_to_them(walled: Cell) -> None:
    attempt = """
    path = os.path.join(os.environ['TMPDIR'], 'own')
    open(path, 'w').close()
    os.chmod(path, 0o700)
    os.utime(path)
    os.truncate(path, 10)
    one, other = socket.socketpair()
    one.sendall(b'x')
    assert other.recv(1) == b'x'
    os.sched_setaffinity(0, os.sched_getaffinity(0))
"""
    assert answer(walled, torch.tensor(list(textwrap.dedent(attempt).encode()), dtype=torch.uint8)).tolist() == [0]


def test_scratch_is_there(walled: Cell) -> None:
    attempt = "open(os.path.join(os.environ['TMPDIR'], 'file'), 'w').close()"
    assert answer(walled, torch.tensor(list(attempt.encode()), dtype=torch.uint8)).tolist() == [0]


@pytest.fixture(scope="module")
def walled() -> Cell:
    """A cell that runs what it is sent, and returns whether it was stopped."""
    text = """
import ctypes, os, socket, torch
libc = ctypes.CDLL(None, use_errno=True)
def check(found):
    if found < 0: raise OSError(ctypes.get_errno())
def f(x):
    try: exec(bytes(x.tolist()).decode(), globals())
    except OSError: return torch.tensor([1])
    return torch.tensor([0])
"""
    with cell_of(text) as cell:
        yield cell  # type: ignore[misc]


def test_proc_shows_no_other_process() -> None:
    text = (
        "import os, torch\ndef f(x): return torch.tensor([int(one) for one in os.listdir('/proc') if one.isdigit()])\n"
    )
    with cell_of(text) as cell:
        if cell.walls.missing:
            pytest.skip(f"{_NO_WALLS}: {cell.walls.missing[0]}")
        assert answer(cell, torch.zeros(1)).tolist() == [1]


def test_walls_that_the_machine_lacks_are_told(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from opsmith.judging.inside import walls
def lacking(*given, **more): raise OSError(38, "not there")
walls.namespaces.enter = walls.landlock.restrict = walls.sieve = lacking
raised = walls.raise_walls(walls.Fence(Path({str(tmp_path)!r}), "cpu", 1 << 33))
print(len(raised.in_force), [one for one in raised.missing])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 [")
    assert done.stdout.count("(not there)") == 3
    assert "no signals to others (it sees" in done.stdout


def test_where_proc_cannot_be_mounted_processes_are_shared_and_it_is_told(tmp_path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from opsmith.judging.inside import walls
def lacking(): raise OSError(1, "not permitted")
walls.namespaces._mount_own_proc = lacking
raised = walls.raise_walls(walls.Fence(Path({str(tmp_path)!r}), "cuda", 1 << 33))
Path("/proc/self/task", str(os.getpid()), "comm").write_text("named")
print(os.getpid() > 2, len(raised.in_force), raised.missing)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if "no /proc can be mounted" not in done.stdout:
        pytest.skip(f"{_NO_WALLS}: {done.stdout}")
    assert done.stdout.startswith("True 6 ['namespaces:")


# Raises the walls of a machine that has no namespaces of processes, with the parts that are given.
_SHARED = """
import ctypes, os, resource, signal, threading
from pathlib import Path
from opsmith.judging.inside import walls
def lacking(*given): raise OSError(1, "not permitted")
walls.namespaces._mount_own_proc = lacking
{more}
raised = walls.raise_walls(walls.Fence(Path({scratch!r}), "cpu", 1 << 33))
def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False
parent = os.getppid()
print([refused(one) for one in ({attempts})])
print(raised.missing)
"""


def raised_where_processes_are_shared(scratch: Path, attempts: str, more: str = "") -> tuple[str, str]:
    program = _SHARED.format(scratch=str(scratch), attempts=attempts, more=more)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found, missing = done.stdout.splitlines()
    if "no /proc can be mounted" not in missing or "seccomp" in missing:
        pytest.skip(f"{_NO_WALLS}: {missing}")
    return found, missing


def test_where_processes_are_shared_others_keep_their_processors_limits_and_priority(tmp_path: Path) -> None:
    attempts = """
        lambda: os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0)),
        lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0)),
        lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        lambda: os.kill(parent, 0),
        lambda: os.chmod(kept, 0),
        lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        lambda: os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0)),
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    """
    (tmp_path / "scratch").mkdir()
    (tmp_path / "kept").touch()
    more = f"kept = {str(tmp_path / 'kept')!r}"
    found, missing = raised_where_processes_are_shared(tmp_path / "scratch", attempts, more)
    signal = "False" if "no signals" in missing else "True"
    assert found == f"[True, True, True, {signal}, True, False, False, False]"


def test_where_processes_are_shared_others_stay_on_their_processors(tmp_path: Path) -> None:
    """A program that says where its own threads run, by their numbers, gets no error; neither do others get moved."""
    attempts = "lambda: os.sched_setaffinity(parent, {min(os.sched_getaffinity(0))}),"
    before = os.sched_getaffinity(0)
    more = f"assert os.sched_getaffinity(os.getppid()) == {before!r}"
    found, _ = raised_where_processes_are_shared(tmp_path, attempts, more)
    assert found == "[False]"
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("lacks", ["nothing", "Landlock"])
def test_what_is_of_the_machine_in_proc_is_read_only(device: str, lacks: str, tmp_path: Path) -> None:
    """`root` may write there without any capability, and what it writes may be a program for the machine to run."""
    program = f"""
from pathlib import Path
from opsmith.judging.inside import walls
def lacking(*given): raise OSError(38, "not there")
if {lacks == "Landlock"}: walls.landlock.restrict = lacking
raised = walls.raise_walls(walls.Fence(Path({str(tmp_path)!r}), {device!r}, 1 << 33))
if "files that are read-only" not in str(raised.in_force):
    print(raised.missing)
else:
    for name in ("kernel/core_pattern", "vm/drop_caches"):
        try:
            open(Path("/proc/sys", name), "r+").close()
        except OSError:
            print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    if "read-only" in done.stdout:
        pytest.skip(f"{_NO_WALLS}: {done.stdout}")
    assert done.stdout.split() == ["refused", "refused"]


def test_beside_a_gpu_processes_that_are_started_name_their_threads(tmp_path: Path) -> None:
    """CUDA does not start where it cannot."""
    program = f"""
import os, subprocess, sys
from pathlib import Path
from opsmith.judging.inside import walls
raised = walls.raise_walls(walls.Fence(Path({str(tmp_path)!r}), "cuda", 1 << 33))
names = "from pathlib import Path; import os; Path('/proc/self/task', str(os.getpid()), 'comm').write_text('named')"
print(len(raised.missing), subprocess.run([sys.executable, "-c", names]).returncode)
if not os.fork():
    Path("/proc/self/task", str(os.getpid()), "comm").write_text("named")
    os._exit(0)
print(os.wait()[1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    if not done.stdout.startswith("0 "):
        pytest.skip(f"{_NO_WALLS}: {done.stdout}")
    assert done.stdout.split() == ["0", "0", "0"]


def test_shared_memory_is_its_own(walled: Cell) -> None:
    if walled.walls.missing:
        pytest.skip(f"{_NO_WALLS}: {walled.walls.missing[0]}")
    attempt = """
    import multiprocessing
    assert os.listdir('/dev/shm') == []
    with multiprocessing.Lock(), open('/dev/shm/own', 'wb') as file:
        file.write(bytes(1 << 20))
"""
    assert answer(walled, torch.tensor(list(textwrap.dedent(attempt).encode()), dtype=torch.uint8)).tolist() == [0]
    too_much = "open('/dev/shm/more', 'wb').write(bytes(128 << 20))"
    assert answer(walled, torch.tensor(list(too_much.encode()), dtype=torch.uint8)).tolist() == [1]
    assert not Path("/dev/shm/own").exists()


# What the filter answers to a call, by its number, arguments and whether it is alone: an error's number, or None.
_ALLOWED, _DENIED, _ABSENT, _LACKING, _NOTHING = None, 1, 2, 38, 0
_ASKED = [
    ("read", (0,), True, _ALLOWED),
    ("shmget", (0, 4096, 0o1600), True, _DENIED),
    ("ptrace", (0,), True, _DENIED),
    ("mount", (0,), True, _DENIED),
    ("clone3", (0,), True, _LACKING),
    ("clone", (17,), True, _ALLOWED),
    ("clone", (0x10000000 | 17,), True, _DENIED),
    ("clone", (0x8000 | 17,), True, _DENIED),
    ("connect", (3,), True, _ABSENT),
    ("sendto", (3, 0, 0, 0, 0), True, _ALLOWED),
    ("sendto", (3, 0, 0, 0, 5), True, _DENIED),
    ("sendto", (3, 0, 0, 0, 5 << 32), True, _DENIED),
    ("socket", (1, 1), True, _ALLOWED),
    ("socket", (1, 1 | 0o2000000), True, _ALLOWED),
    ("socket", (1, 5), True, _ALLOWED),
    ("socket", (1, 2), True, _DENIED),
    ("socket", (2, 1), True, _DENIED),
    ("socketpair", (1, 2), True, _DENIED),
    ("truncate", (0,), True, _ALLOWED),
    ("prlimit64", (7,), True, _ALLOWED),
    ("prlimit64", (7,), False, _DENIED),
    ("prlimit64", (0,), False, _ALLOWED),
    ("sched_setaffinity", (7,), False, _NOTHING),
    ("sched_setaffinity", (0,), False, _ALLOWED),
    ("setpriority", (0,), False, _DENIED),
    ("setpriority", (0,), True, _ALLOWED),
]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(("name", "arguments", "is_alone", "error"), _ASKED)
def test_the_filter_answers(
    name: str,
    arguments: tuple[int, ...],
    is_alone: bool,
    error: int | None,
    machine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    program = sieve._program(is_alone=is_alone, refuses_truncate=False)
    number = {"x86_64": 0, "aarch64": 63}[machine] if name == "read" else number_of(name)
    answered = run_filter(program, number, arguments, {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine])
    assert answered == (0x7FFF0000 if error is None else 0x00050000 | error)


def test_the_filter_knows_calls_of_its_own_machine_alone() -> None:
    program = sieve._program(is_alone=True, refuses_truncate=False)
    assert run_filter(program, 1, (), 0x40000003) == 0x80000000
    assert run_filter(program, 0x40000000 | 59, (), 0xC000003E) in (0x00050001, 0x80000000)


def run_filter(program: list[tuple[int, int, int, int]], number: int, arguments: tuple[int, ...], machine: int) -> int:
    """Return what a filter of calls answers, as Linux runs it."""
    data = number.to_bytes(4, "little") + machine.to_bytes(4, "little") + bytes(8)
    data += b"".join(one.to_bytes(8, "little") for one in (*arguments, *[0] * (6 - len(arguments))))
    loaded = at = 0
    while True:
        code, if_so, if_not, value = program[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            loaded = int.from_bytes(data[value : value + 4], "little")
        elif code == 0x54:
            loaded &= value
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += if_so if holds else if_not


def test_what_an_old_landlock_lacks_is_told(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    (tmp_path / "scratch").mkdir()
    more = "walls.landlock._version = lambda: 2"
    attempts = f"lambda: os.truncate({str(kept)!r}, 0),"
    found, missing = raised_where_processes_are_shared(tmp_path / "scratch", attempts, more)
    assert found == "[True]"
    assert "no signals to others (it sees the other processes, and has no Landlock of Linux 6.12 or newer)" in missing
    assert kept.read_text() == "kept"


def test_lower_limits_of_the_machine_stay(tmp_path: Path) -> None:
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_NPROC, (3000, 3000))
from pathlib import Path
from opsmith.judging.inside import walls
walls.raise_walls(walls.Fence(Path({str(tmp_path)!r}), "cpu", 1 << 33))
print(resource.getrlimit(resource.RLIMIT_FSIZE)[1], resource.getrlimit(resource.RLIMIT_NPROC)[1] <= 3000)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(1 << 30), "True"], done.stderr
