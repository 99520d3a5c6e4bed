"""Judgements that share a GPU know what the others may take of it; none of this needs a GPU."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from forks import python_c
from opsmith.judging import gpu_claims
from opsmith.judging.gpu_claims import claimed
from opsmith.judging.gpu_memory import GpuMemory

MIB = 1 << 20


def nothing() -> None:
    """Is called where a claim has to wait."""


def test_a_claim_lasts_as_long_as_its_block(tmp_path: Path) -> None:
    with claimed(30, nothing, tmp_path, 100) as first, claimed(60, nothing, tmp_path, 100) as second:
        assert first is not None
        assert second is not None
        assert (first.others_bytes(), second.others_bytes()) == (60, 30)
        second.set(65)
        assert first.others_bytes() == 65
    with claimed(100, nothing, tmp_path, 100) as third:
        assert third is not None
        assert third.others_bytes() == 0


def test_without_a_gpu_nothing_is_claimed() -> None:
    with claimed(0, nothing) as claim:
        assert claim is None


def test_a_claim_waits_for_room(tmp_path: Path) -> None:
    waits, order, is_waiting = [], [], threading.Event()

    def wait() -> None:
        waits.append(1)
        is_waiting.set()

    def later() -> None:
        with claimed(50, wait, tmp_path, 100):
            order.append("second")

    with claimed(51, nothing, tmp_path, 100):
        thread = threading.Thread(target=later)
        thread.start()
        assert is_waiting.wait(timeout=10)
        order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "second"]
    assert waits == [1]


def test_who_is_alone_has_more_than_there_is(tmp_path: Path) -> None:
    with claimed(200, pytest.fail, tmp_path, 100) as claim:
        assert claim is not None


_KILLED = """
import os, signal, sys
from pathlib import Path
from opsmith.judging import gpu_claims
from opsmith.judging.gpu_claims import claimed

with claimed(80, lambda: None, Path(sys.argv[1]), 100) as claim:
    print(claim.others_bytes(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_claim_of_a_judgement_that_was_killed_is_gone(tmp_path: Path) -> None:
    with claimed(20, pytest.fail, tmp_path, 100) as claim:
        done = python_c(_KILLED, [str(tmp_path)], env=os.environ)
        assert done.stdout.strip() == "20"
        assert len(list(tmp_path.glob("claim-*"))) == 2
        assert claim is not None
        assert claim.others_bytes() == 0
        with claimed(80, pytest.fail, tmp_path, 100):
            assert len(list(tmp_path.glob("claim-*"))) == 2  # its file is removed


def test_a_file_that_is_no_claim_counts_for_nothing(tmp_path: Path) -> None:
    for name, text in (("claim-a", "much"), ("claim-b", "-50"), ("claim-c", "")):
        (tmp_path / name).write_text(text)
    with (tmp_path / "claim-a").open("r+") as junk, (tmp_path / "claim-b").open("r+") as less:
        for file in (junk, less):
            fcntl.flock(file, fcntl.LOCK_EX)
        with claimed(100, pytest.fail, tmp_path, 100) as claim:
            assert claim is not None
            assert claim.others_bytes() == 0
    assert sorted(path.name for path in tmp_path.glob("claim-*")) == ["claim-a", "claim-b"]


def test_a_folder_that_cannot_be_written_ends_no_judgement(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with claimed(20, nothing, tmp_path / "missing", 100) as claim:
        assert claim is None
    assert "do not know of each other" in caplog.text


def test_another_judgement_s_memory_is_not_the_candidate_s(tmp_path: Path) -> None:
    used = [0]
    with (
        claimed(1000 * MIB, nothing, tmp_path, 80_000 * MIB) as own,
        claimed(4000 * MIB, nothing, tmp_path, 80_000 * MIB) as other,
    ):
        assert other is not None
        memory = GpuMemory(1000 * MIB, lambda: used[0], own)
        used[0] = 5500 * MIB
        assert memory.excess(0) is None
        assert other.others_bytes() == 2024 * MIB  # with what the judge itself and the driver may need
        used[0] = 6500 * MIB
        charge = memory.excess(0)
        assert charge is not None
        assert charge.message.endswith("beside its inputs and results, and other judgements 4000")
        other.set(5000 * MIB)
        assert memory.excess(0) is None
    assert memory.excess(0) is not None


def test_a_lock_that_is_never_given_back_stops_no_judgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_claims, "_LOCKED_S", 0.3)
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with claimed(30, nothing, tmp_path, 100) as claim:
            assert claim is None
    finally:
        os.close(lock)
