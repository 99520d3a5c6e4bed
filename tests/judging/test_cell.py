"""A candidate's process gets inputs and gives results as bytes, and cannot do what its walls forbid."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
import torch
from judging_kit.cells import answer, cell_of

from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.cell import Cell, CellError, Limits
from opsmith.judging.gpu_memory import GpuMemory
from opsmith.judging.inside.system_calls import filtered_numbers
from opsmith.judging.processes import family, memory_bytes
from opsmith.judging.refusals import Refusal

_NO_WALLS = "this machine does not have the wall"


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(3, 5),
        torch.randn(5, 3).t(),
        torch.randn(4, 6)[1:, ::2],
        torch.randn(7)[1:],
        torch.randn(1, 4).expand(3, 4),
        torch.randn(0, 3),
        torch.tensor(2.5),
        torch.arange(6, dtype=torch.int64),
        torch.tensor([True, False]),
        torch.randn(3, dtype=torch.bfloat16),
        torch.randn(3, dtype=torch.complex64).conj(),
    ],
    ids=lambda x: f"{x.dtype}, {tuple(x.shape)}, {x.stride()}",
)
def test_inputs_arrive_with_their_layout(x: torch.Tensor, shared_cell: Cell) -> None:
    shared_cell.load([[x]])
    assert shared_cell.run([0]).error is None
    value, facts = (one.tensor for one in shared_cell.give([0])[0] if one is not None)
    assert value is not None
    assert facts is not None
    assert torch.equal(value, x)
    strides = x.resolve_conj().stride()
    assert facts.tolist() == [*strides, x.storage_offset() * x.element_size() % 64]
    assert shared_cell.changed_inputs() == ""


@pytest.fixture(scope="module")
def shared_cell() -> Cell:
    with cell_of(
        "import torch\ndef f(x): return x.clone(), torch.tensor([*x.stride(), x.data_ptr() % 64 if x.numel() else 0])\n"
    ) as cell:
        yield cell  # type: ignore[misc]


def test_memory_of_smaller_inputs_is_given_back() -> None:
    with cell_of("def f(x): return x.sum()\n") as cell:
        for size in (1 << 16, 1 << 20, 1 << 22):
            cell.load([[torch.zeros(size)]])
            assert cell.run([0]).error is None
            cell.give([0])
        folder = Path(f"/proc/{family(cell.pid)[-1]}/fd")
        held = [one for one in folder.iterdir() if "memfd:" in str(one.readlink())]
    # Two descriptors for each of two areas: its own, and that of its mapping.
    assert len(held) <= 4


def test_contents_change_behind_the_same_object(tmp_path: Path) -> None:
    with cell_of(
        "seen = []\ndef f(x):\n    seen.append(x)\n    return x.new_tensor([len({id(one) for one in seen})])\n"
    ) as cell:
        for number in range(3):
            cell.load([[torch.full((4,), float(number))]], keep=number > 0)
            cell.run([0])
        (one,) = cell.give([0])[0]
        assert one is not None
        assert one.tensor is not None
        assert one.tensor.item() == 1


def test_a_candidate_has_a_copy_of_its_files_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    told = "'SECRET_TOKEN' in os.environ, os.path.exists('candidate.py')"
    text = f"import os, torch\ndef f(x): return torch.tensor([{told}])\n"
    with cell_of(text) as cell:
        assert answer(cell, torch.zeros(1)).tolist() == [False, True]
        folder = cell.process.folder
    assert not folder.exists()


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
        attempt = FORBIDDEN[name].format(**places, judge=os.getpid(), clone=filtered_numbers().clone)
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


def test_what_a_candidate_starts_ends_with_it() -> None:
    with cell_of(
        "import subprocess, torch\ndef f(x): return torch.tensor([subprocess.Popen(['sleep', '600']).pid])\n"
    ) as cell:
        answer(cell, torch.zeros(1))
        started = family(cell.pid)
        assert any(_name(one) == "sleep" for one in started)
    until_s = time.monotonic() + 5
    while any(_name(one) == "sleep" for one in started) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert not any(_name(one) == "sleep" for one in started)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.parametrize(
    "text",
    ["import torch\ndef f(x): return torch.ones(1 << 30)\n", "def f(x): return bytearray(4 << 30)\n"],
)
def test_memory_is_bounded(text: str) -> None:
    with cell_of(text, memory_bytes=3 << 30) as cell, pytest.raises(CellError) as refused:
        answer(cell, torch.zeros(1))
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY


def test_less_memory_than_pytorch_takes_is_not_called_a_crash() -> None:
    with pytest.raises(CellError) as refused, cell_of("", memory_bytes=30 << 20):
        pass
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY
    assert "PyTorch alone does not fit into the 30 MiB" in refused.value.charge.message


def test_what_is_written_is_bounded() -> None:
    text = """
import os, time
def f(x):
    with open(os.path.join(os.environ["TMPDIR"], "file"), "wb") as file:
        for _ in range(64): file.write(bytes(1 << 20))
    time.sleep(60)
"""
    with cell_of(text, disk_bytes=16 << 20) as cell, pytest.raises(CellError) as refused:
        answer(cell, torch.zeros(1))
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY
    assert "to files" in refused.value.charge.message


def test_files_without_a_name_are_bounded() -> None:
    text = """
import os
kept = []
def f(x):
    kept.append(os.memfd_create("memory"))
    for _ in range(64): os.write(kept[0], bytes(8 << 20))
    return x
"""
    with cell_of(text, memory_bytes=700 << 20) as cell, pytest.raises(CellError) as refused:
        answer(cell, torch.zeros(1))
        time.sleep(0.2)
        answer(cell, torch.zeros(1))
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY


def test_who_has_lost_a_parent_ends_too() -> None:
    text = """
import os, time, torch
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
    os.wait()
    return x
"""
    with cell_of(text) as cell:
        answer(cell, torch.zeros(1))
        members = family(cell.pid)
        own = 1 + any("namespaces" in one for one in cell.walls.in_force)
        assert len(members) == own + 1
    until_s = time.monotonic() + 5
    while any(map(_is_there, members)) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert not any(map(_is_there, members))


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_gpu_is_watched_while_a_call_goes_on() -> None:
    used = itertools.count(0, 512 << 20)
    with cell_of("import time\ndef f(x): time.sleep(60)\n") as cell, pytest.raises(CellError) as refused:
        cell.process._gpu = GpuMemory(1 << 30, lambda: next(used))
        answer(cell, torch.zeros(1))
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY
    assert "of the GPU's memory" in refused.value.charge.message


def test_a_process_that_does_not_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CellError):
        Cell(None, "cpu", Limits(memory_bytes=32 << 20))
    assert list(tmp_path.iterdir()) == []


def test_proc_shows_no_other_process() -> None:
    text = (
        "import os, torch\ndef f(x): return torch.tensor([int(one) for one in os.listdir('/proc') if one.isdigit()])\n"
    )
    with cell_of(text) as cell:
        if cell.walls.missing:
            pytest.skip(f"{_NO_WALLS}: {cell.walls.missing[0]}")
        assert answer(cell, torch.zeros(1)).tolist() == [1]


def test_an_exception_has_its_place() -> None:
    with cell_of("def f(x):\n    return 1 // 0\n") as cell, pytest.raises(CellError, match=r"\(candidate.py, line 2\)"):
        answer(cell, torch.zeros(1))


def test_walls_that_the_machine_lacks_are_told(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from opsmith.judging.inside import walls
def lacking(*given): raise OSError(38, "not there")
walls._unshare = walls._landlock = walls._sieve = lacking
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
walls._mount_own_proc = lacking
raised = walls.raise_walls(walls.Fence(Path({str(tmp_path)!r}), "cuda", 1 << 33))
Path("/proc/self/task", str(os.getpid()), "comm").write_text("named")
print(os.getpid() > 2, len(raised.in_force), raised.missing)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if "no /proc can be mounted" not in done.stdout:
        pytest.skip(f"{_NO_WALLS}: {done.stdout}")
    assert done.stdout.startswith("True 5 ['namespaces:")
    assert "it shares its mounts with others" in done.stdout


# Raises the walls of a machine that has no namespaces of processes, with the parts that are given.
_SHARED = """
import ctypes, os, resource, signal
from pathlib import Path
from opsmith.judging.inside import walls
def lacking(*given): raise OSError(1, "not permitted")
walls._mount_own_proc = lacking
{more}
raised = walls.raise_walls(walls.Fence(Path({scratch!r}), "cpu", 1 << 33))
def refused(attempt):
    try:
        attempt()
    except PermissionError:
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
        lambda: os.sched_setaffinity(parent, os.sched_getaffinity(0)),
        lambda: os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0)),
        lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0)),
        lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        lambda: os.kill(parent, 0),
        lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    """
    found, missing = raised_where_processes_are_shared(tmp_path, attempts)
    assert found == "[True, True, True, True, True, False, False]" or "no signals" in missing


def test_what_an_old_landlock_lacks_is_told(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    (tmp_path / "scratch").mkdir()
    more = "walls._landlock_version = lambda: 2"
    attempts = f"lambda: os.truncate({str(kept)!r}, 0),"
    found, missing = raised_where_processes_are_shared(tmp_path / "scratch", attempts, more)
    assert found == "[True]"
    assert "no signals to others (it sees the other processes, and has no Landlock of Linux 6.12 or newer)" in missing
    assert kept.read_text() == "kept"


def test_what_has_lost_its_parent_is_ended_where_no_namespace_does_it() -> None:
    program = "import os, time\nif os.fork(): os.read(0, 1)\nelse:\n    os.setsid()\n    time.sleep(600)\n"
    process = CandidateProcess("cpu", Limits())
    try:
        process.kill()
        process._process = started = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        until_s = time.monotonic() + 20
        while len(members := process._members()) < 2 and time.monotonic() < until_s:
            time.sleep(0.02)
        started.communicate(b"x")
        assert Path(f"/proc/{members[1]}").exists()
        process.kill()
        while Path(f"/proc/{members[1]}/fd/0").exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        assert not Path(f"/proc/{members[1]}/fd/0").exists()
    finally:
        process.close()


def test_memory_of_a_forked_process_is_that_of_a_program_of_its_own() -> None:
    taken = []
    for _ in range(3):
        with cell_of("def f(x): return x\n") as cell:
            if not cell.process._waits_outside:
                pytest.skip(f"{_NO_WALLS}: {cell.walls.missing}")
            members = cell.process._members()
            taken.append(sum(map(memory_bytes, members[1:])))
            assert len(members) == 2
    assert max(taken) < 1.5 * min(taken)
