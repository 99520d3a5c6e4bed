"""Variables of the environment that are overridden for a while, by several threads too."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from opsmith import _env
from opsmith._override import overridden
from opsmith.build import existing

WAIT_S = 30.0


@contextmanager
def _in_another_thread(name: str, value: str, *, unless_set: bool = False) -> Iterator[None]:
    """Hold a block of `overridden` open in a thread of its own."""
    is_in, may_leave = threading.Event(), threading.Event()

    def hold() -> None:
        with overridden(name, value, unless_set=unless_set):
            is_in.set()
            assert may_leave.wait(WAIT_S)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        try:
            assert is_in.wait(WAIT_S)
            yield
        finally:
            may_leave.set()
            held.result(WAIT_S)


@pytest.mark.parametrize("before", [None, "", "/before"])
def test_blocks_of_two_threads_may_overlap(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if before is None:
        monkeypatch.delenv("CUDA_HOME", raising=False)
    else:
        monkeypatch.setenv("CUDA_HOME", before)
    with ExitStack() as first:
        first.enter_context(_in_another_thread("CUDA_HOME", "/a"))
        assert _env.read("CUDA_HOME") == "/a"
        with overridden("CUDA_HOME", "/b"):
            assert _env.read("CUDA_HOME") == "/b"
            first.close()
            assert _env.read("CUDA_HOME") == "/b"
    assert os.environ.get("CUDA_HOME") == before


def test_blocks_in_one_another_end_as_they_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    with overridden("CUDA_HOME", "/a"):
        with pytest.raises(ValueError, match="no"), overridden("CUDA_HOME", "/b"):
            raise ValueError("no")
        assert _env.read("CUDA_HOME") == "/a"
        del os.environ["CUDA_HOME"]  # the end of the block does not need it
    assert _env.read("CUDA_HOME") is None


def test_what_is_set_is_left_alone_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_CCBIN", "theirs")
    with overridden("NVCC_CCBIN", "ours", unless_set=True):
        assert _env.read("NVCC_CCBIN") == "theirs"
    assert _env.read("NVCC_CCBIN") == "theirs"


def test_the_host_compiler_of_nvcc_stays_while_another_thread_is_done_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "sh")
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    with ExitStack() as first:
        first.enter_context(_in_another_thread("NVCC_CCBIN", "sh", unless_set=True))
        with existing._host_of_nvcc(gpu=True):
            first.close()
            assert _env.read("NVCC_CCBIN") == "sh"
    assert _env.read("NVCC_CCBIN") is None
