"""Which GPUs there are, asked here or in another process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from opsmith._subprocess import Completed
from opsmith.toolchain import gpus
from opsmith.toolchain.gpus import Gpu, find_gpus

H100 = SimpleNamespace(name="H100", major=9, minor=0)


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked: list[int] = []

    def properties(index: int) -> SimpleNamespace:
        asked.append(index)
        return H100

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK", raising=False)
    return asked


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_gpus() == ()


def test_asked_here(one_gpu: list[int]) -> None:
    assert find_gpus() == (Gpu("H100", 9, 0, ""),)
    assert one_gpu == [0]


def test_asked_elsewhere_where_this_process_is_going_to_fork(
    one_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Completed((), 0, 'a warning\nGPUS [["H100", 9, 0, ""], ["H200", 9, 0, ""]]\n')
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    monkeypatch.setattr(gpus, "ask", lambda *words, **more: answer)
    gpus._ask.cache_clear()
    assert find_gpus() == (Gpu("H100", 9, 0, ""), Gpu("H200", 9, 0, ""))
    gpus._ask.cache_clear()
    assert one_gpu == []


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "raise SystemExit(1)"])
def test_no_answer_is_no_gpu_and_the_next_call_asks_again(
    program: str, one_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    monkeypatch.setattr(gpus, "_TIMEOUT_S", 1.0)
    monkeypatch.setattr(gpus, "_PROGRAM", program)
    gpus._ask.cache_clear()
    assert find_gpus() == ()
    monkeypatch.setattr(gpus, "ask", lambda *words, **more: Completed((), 0, 'GPUS [["H100", 9, 0, ""]]\n'))
    assert find_gpus() == (Gpu("H100", 9, 0, ""),)
    gpus._ask.cache_clear()
    assert one_gpu == []


@pytest.mark.slow("a process that imports torch; make test has the text it parses")
def test_the_program_that_is_run() -> None:
    # Without a GPU it finds none; what it prints is read all the same.
    done = gpus.ask([gpus.sys.executable, "-c", gpus._PROGRAM], timeout_s=gpus._TIMEOUT_S)
    assert isinstance(done, Completed)
    assert "GPUS [" in done.output
