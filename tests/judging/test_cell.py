"""A candidate's process gets inputs and gives results as bytes, and cannot do what its walls forbid."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from judging_kit.candidates import RIGHT, judged
from judging_kit.cells import answer, cell_of

from opsmith.judging import launch
from opsmith.judging.answers import NotStartedError
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.cell import Cell, CellError, Limits
from opsmith.judging.gpu_memory import GpuMemory
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


def test_what_does_not_start_is_no_verdict_on_the_candidate(tmp_path: Path) -> None:
    with pytest.raises(NotStartedError, match="memory"):
        judged(tmp_path, RIGHT, memory_gib=0.03)


def test_an_exception_has_its_place() -> None:
    with cell_of("def f(x):\n    return 1 // 0\n") as cell, pytest.raises(CellError, match=r"\(candidate.py, line 2\)"):
        answer(cell, torch.zeros(1))


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


def test_an_answer_byte_by_byte_is_no_answer() -> None:
    text = """
import os, socket, struct, time
def f(x):
    for name in os.listdir("/proc/self/fd"):
        try:
            link = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        link.sendall(struct.pack("<I", 1 << 20))
        while True:
            link.sendall(b" ")
            time.sleep(0.05)
"""
    with cell_of(text, load_s=10.0) as cell:
        cell.load([[torch.zeros(1)]])
        begun_s = time.monotonic()
        with pytest.raises(CellError, match="no answer within 10 s") as refused:
            cell.run([0])
        assert time.monotonic() - begun_s < 30
        assert refused.value.charge.refusal is Refusal.HUNG


def test_what_cannot_be_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("start_forked", "start_program"):
        monkeypatch.setattr(launch, name, fails)
    before = {one.name for one in Path("/proc/self/fd").iterdir()}
    with pytest.raises(OSError, match="too many open files"):
        Cell(None, "cpu", Limits())
    assert list(tmp_path.iterdir()) == []
    assert {
        one.name for one in Path("/proc/self/fd").iterdir()
    } <= before  # what other tests have left may be closed meanwhile


def test_who_hops_from_process_to_process_is_ended() -> None:
    program = """
import os, sys, time
from opsmith.judging.inside.system_calls import become_subreaper
become_subreaper()
if not os.fork():
    while True:
        if os.fork(): os._exit(0)
        time.sleep(1e-3)
time.sleep(600)
"""
    process = CandidateProcess("cpu", Limits())
    try:
        process.kill()
        process._process = subprocess.Popen([sys.executable, "-c", program])
        until_s = time.monotonic() + 20
        while len(process._members()) < 2 and time.monotonic() < until_s:
            time.sleep(0.02)
        leader = process.pid
        process.kill()
        time.sleep(0.2)
        left = [one for one in Path("/proc").glob("[0-9]*") if _is_of(one, program)]
        assert not Path(f"/proc/{leader}/exe").exists()
        assert left == []
    finally:
        process.close()


def _is_of(process: Path, program: str) -> bool:
    try:
        return program.encode() in (process / "cmdline").read_bytes() and (process / "exe").exists()
    except OSError:
        return False
