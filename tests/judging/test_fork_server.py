"""Candidates' processes are forked from one that has PyTorch imported, and are what programs of their own would be."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from judging_kit.cells import answer, cell_of

from opsmith.judging import fork_server
from opsmith.judging.cell import Cell, CellError
from opsmith.judging.fork_server import Forked
from opsmith.judging.processes import family
from opsmith.judging.refusals import Refusal

_SAYS = """
import json, os, sys, torch
def kind(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").split(":")[0]
    except OSError:  # that of the list itself
        return ""
def f(x):
    folder = os.environ["TMPDIR"]
    found = {
        "environment": {name: value.replace(folder, "SCRATCH") for name, value in os.environ.items()},
        "folder": os.getcwd() == os.path.join(os.path.dirname(folder), "candidate"),
        "path": [one.replace(os.path.dirname(folder), "HERE") for one in sys.path],
        "descriptors": sorted(filter(None, map(kind, os.listdir("/proc/self/fd")))),
        "leads its session": os.getsid(0) == os.getppid() or os.getsid(0) == 0,
        "cores": sorted(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "isolated": sys.flags.isolated,
        "writes no bytecode": sys.dont_write_bytecode,
    }
    found["descriptors"] = [one.replace(os.path.dirname(folder), "HERE") for one in found["descriptors"]]
    return torch.tensor(list(json.dumps(found).encode()), dtype=torch.uint8)
"""


pytestmark = pytest.mark.slow("starts processes that import PyTorch")


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[fork_server._Servers]:
    mine = fork_server._Servers()
    monkeypatch.setattr(fork_server, "_servers", mine)
    yield mine
    mine.end()


def is_forked(cell: Cell) -> bool:
    return isinstance(cell.process._process, Forked)


def forked_cell(text: str) -> Cell:
    cell = cell_of(text)
    if is_forked(cell):
        return cell
    cell.close()  # the first one of this process
    cell = cell_of(text)
    assert is_forked(cell)
    return cell


def test_a_forked_process_is_what_a_program_of_its_own_is(servers: fork_server._Servers) -> None:
    with cell_of(_SAYS) as program, cell_of(_SAYS) as forked:
        assert [is_forked(one) for one in (program, forked)] == [False, True]
        assert program.walls == forked.walls
        said = [json.loads(bytes(answer(one, torch.zeros(1)).tolist())) for one in (program, forked)]
    assert said[0] == said[1]
    assert said[0]["folder"]


def test_each_has_random_numbers_of_its_own() -> None:
    text = """
import random, numpy, torch
drawn = torch.tensor([random.random(), numpy.random.rand(), torch.rand(()).item()])
def f(x): return drawn
"""
    with forked_cell(text) as one, forked_cell(text) as other:
        assert (answer(one, torch.zeros(1)) != answer(other, torch.zeros(1))).all()


@pytest.mark.parametrize(
    ("ends", "told"),
    [("os._exit(3)", "its process ended with status 3"), ("ctypes.string_at(0)", "ended by SIGSEGV: last words")],
)
def test_how_it_ends_is_told(ends: str, told: str) -> None:
    text = f"import ctypes, os\ndef f(x):\n    print('last words', flush=True)\n    {ends}\n"
    with forked_cell(text) as cell:
        cell.load([[torch.zeros(1)]])
        with pytest.raises(CellError, match=told) as refused:
            cell.run([0])
        assert refused.value.charge.refusal is Refusal.CRASHED
        assert not cell.is_alive


def test_a_killed_process_leaves_nothing() -> None:
    with forked_cell(
        "import os\nos.fork() or os.read(0, 1) or __import__('time').sleep(600)\ndef f(x): return x\n"
    ) as cell:
        members = family(cell.pid)
    assert len(members) >= 2
    assert all_end(members, lambda one: Path(f"/proc/{one}").exists())


def test_a_server_that_was_killed_is_a_crash_of_its_candidate_and_is_replaced(servers: fork_server._Servers) -> None:
    with forked_cell("def f(x): return x\n") as cell:
        assert servers._server is not None
        cell.load([[torch.zeros(1)]])
        os.kill(servers._server._process.pid, signal.SIGKILL)
        with pytest.raises(CellError) as refused:
            for _ in range(100):
                time.sleep(0.05)
                cell.run([0])
        assert refused.value.charge.refusal is Refusal.CRASHED
    with cell_of("def f(x): return x + 1\n") as cell:
        assert answer(cell, torch.zeros(1)).tolist() == [1]


def test_another_environment_has_another_server_and_ends_nothing(
    servers: fork_server._Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os, torch\ndef f(x): return torch.tensor(float(os.environ.get('OMP_NUM_THREADS', 0)))\n"
    with ExitStack() as cells:
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("OMP_NUM_THREADS", threads)
            found += [cells.enter_context(cell_of(text)) for _ in range(2)]
        assert [is_forked(one) for one in found] == [False, True, False, True]
        assert [answer(one, torch.zeros(1)).item() for one in found] == [1, 1, 3, 3]


def test_without_descriptors_of_processes_each_is_a_program(
    servers: fork_server._Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    for _ in range(2):
        with cell_of("def f(x): return x\n") as cell:
            assert not is_forked(cell)


def test_when_the_judge_is_killed_server_and_candidates_end() -> None:
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from judging_kit.cells import cell_of
from opsmith.judging import fork_server
from opsmith.judging.processes import family
cells = [cell_of("def f(x): return x") for _ in range(3)]
print(fork_server._servers._server._process.pid, *(one for cell in cells for one in family(cell.pid)), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as judge:
        assert judge.stdout is not None
        members = [int(one) for one in judge.stdout.readline().split()]
        judge.kill()
    assert len(members) >= 4
    # Those that nobody waits for stay as entries of the table; they have no program.
    assert all_end(members, _runs)


def all_end(members: list[int], is_there: Callable[[int], bool]) -> bool:
    until_s = time.monotonic() + 10
    while any(map(is_there, members)) and time.monotonic() < until_s:
        time.sleep(0.01)
    return not any(map(is_there, members))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_server_that_does_not_fork_costs_no_candidate_its_verdict(
    servers: fork_server._Servers, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    with forked_cell("def f(x): return x\n"):
        assert servers._server is not None
        server = servers._server._process
    os.kill(server.pid, number)
    with monkeypatch.context() as patch:
        patch.setattr(fork_server, "_FORK_S", 1.0)
        with cell_of("def f(x): return x + 1\n") as cell:
            assert answer(cell, torch.zeros(1)).tolist() == [1]
    assert server.wait(5) == -signal.SIGKILL
    with cell_of("def f(x): return x + 2\n") as cell:
        assert is_forked(cell)
        assert answer(cell, torch.zeros(1)).tolist() == [2]


def test_an_ignored_end_of_children_is_nothing_to_the_server(servers: fork_server._Servers) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with forked_cell("import os\ndef f(x): os._exit(3)\n") as cell:
            cell.load([[torch.zeros(1)]])
            with pytest.raises(CellError, match="ended with status 3"):
                cell.run([0])
        assert servers._server is not None
        assert servers._server.is_here
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_other_limits_have_another_server(servers: fork_server._Servers) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        found = []
        for most in (before[0], before[0] - 1):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
            for _ in range(2):
                with cell_of(
                    "import resource, torch\ndef f(x): return torch.tensor(resource.getrlimit(7)[0])\n"
                ) as cell:
                    found.append((is_forked(cell), answer(cell, torch.zeros(1)).item()))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == [(False, before[0]), (True, before[0]), (False, before[0] - 1), (True, before[0] - 1)]


def test_what_a_child_leaves_behind_is_ended() -> None:
    program = """
import os, signal, socket, time
from opsmith.judging.inside.fork_server import _Forker
from opsmith.judging.inside.system_calls import become_subreaper
become_subreaper()
read, write = os.pipe()
if not os.fork():
    if not os.fork():
        os.setsid()
        os.write(write, str(os.getpid()).encode())
        time.sleep(600)
    os._exit(0)
os.wait()
orphan = int(os.read(read, 20))
os.kill(orphan, 0)
mine, other = socket.socketpair()
forker = _Forker(mine)
until_s = time.monotonic() + 20
while time.monotonic() < until_s:
    forker._end_others()
    try:
        os.kill(orphan, 0)
    except ProcessLookupError:
        print("gone")
        break
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "gone\n"


def test_who_forks_and_ends_again_and_again_is_ended() -> None:
    program = """
import os, socket, sys, time
from opsmith.judging.inside.fork_server import _Forker
from opsmith.judging.inside.system_calls import become_subreaper
become_subreaper()
if not os.fork():
    while True:  # hops from process to process
        if os.fork(): os._exit(0)
        time.sleep(1e-3)
time.sleep(0.1)
mine, other = socket.socketpair()
forker = _Forker(mine)
children = f"/proc/self/task/{os.getpid()}/children"
until_s = time.monotonic() + 20
while open(children).read().split() and time.monotonic() < until_s:
    forker._end_others()
time.sleep(0.1)
print("left:", open(children).read())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "left:"
