"""Work in a forked child: what it sends arrives, however it ends, and the parent learns how that was."""

from __future__ import annotations

import os
import resource
import signal
import time
from typing import Any

import pytest
import torch

from opsmith.checker.process.child import GPU_FULL, GPU_LOST, Ended, Send, in_child
from opsmith.checker.process.lost_gpu import leave_where_lost


def run(work: Any, silence_s: float = 20.0) -> tuple[list[Any], Ended]:
    *messages, ended = in_child(work, silence_s=silence_s)
    assert isinstance(ended, Ended)
    return messages, ended


def test_messages_arrive_in_order_and_the_end_is_the_last():
    def work(send: Send) -> None:
        for number in range(5):
            send(number)

    messages, ended = run(work)
    assert messages == [0, 1, 2, 3, 4]
    assert ended == Ended("", hung=False, output="")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, "a segmentation fault"),
        (signal.SIGABRT, "an abort"),
        (signal.SIGFPE, "a division by zero"),
        (signal.SIGTERM, "SIGTERM"),
    ],
)
def test_a_crash_is_named_and_what_was_sent_before_is_there(number: int, words: str):
    def work(send: Send) -> None:
        send({"x": torch.arange(3)})
        print("about to fall", flush=True)
        os.kill(os.getpid(), number)
        time.sleep(10)

    (message,), ended = run(work)
    # The tensor itself came, not the address of memory that is gone.
    assert message["x"].tolist() == [0, 1, 2]
    assert ended == Ended(words, hung=False, output="about to fall")


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        ("CUDA error: an illegal memory access was encountered", GPU_LOST, ""),
        ("CUDA error: out of memory", GPU_FULL, "; 0.1 of 80.0 GB are free, this process holds 2.0 GB"),
    ],
)
def test_a_gpu_that_fails_ends_the_process(error: str, status: int, told: str, monkeypatch: pytest.MonkeyPatch):
    def synchronize() -> None:
        raise RuntimeError(f"{error}\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.synchronize", synchronize)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (100_000_000, 80_000_000_000))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda: 2_000_000_000)
    _, ended = run(lambda send: leave_where_lost("cuda"))
    words = {GPU_LOST: "the GPU stops", GPU_FULL: "the GPU's memory is full"}[status]
    assert ended == Ended(words, hung=False, output=error + told)


def test_an_exception_is_an_exit_status_with_its_traceback():
    def work(send: Send) -> None:
        raise ValueError("out of range")

    messages, ended = run(work)
    assert messages == []
    assert ended.crash == "exit status 1"
    assert ended.output.endswith("ValueError: out of range")


def test_silence_is_a_hang():
    def work(send: Send) -> None:
        send("beginning")
        time.sleep(60)

    started = time.monotonic()
    messages, ended = run(work, silence_s=0.3)
    assert messages == ["beginning"]
    assert ended.hung
    assert time.monotonic() - started < 30


def test_who_tells_something_is_not_silent():
    def work(send: Send) -> None:
        for _ in range(4):
            time.sleep(0.5)
            send(None)

    messages, ended = run(work, silence_s=1.5)
    assert len(messages) == 4
    assert not ended.hung


def test_a_child_without_a_parent_is_ended():
    def work(send: Send) -> None:
        send(os.getpid())
        time.sleep(60)

    messages = in_child(work, silence_s=20)
    child = next(messages)
    started = time.monotonic()
    messages.close()
    assert time.monotonic() - started < 4
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_the_parents_threads_are_not_waited_for():
    # OpenMP's pool of the parent does not exist in the child; a child that used it would hang.
    torch.randn(1 << 20).sum()

    def work(send: Send) -> None:
        send(float(torch.ones(1 << 20).sum()))

    assert run(work)[0] == [float(1 << 20)]


def test_a_crash_leaves_no_core_file():
    def work(send: Send) -> None:
        send(resource.getrlimit(resource.RLIMIT_CORE)[0])

    assert run(work)[0] == [0]


def test_a_child_changes_nothing_here():
    changed: list[int] = []

    def work(send: Send) -> None:
        changed.append(1)
        torch.manual_seed(5)
        send(len(changed))

    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert run(work)[0] == [1]
    assert changed == []
    assert torch.equal(torch.get_rng_state(), before)
