"""What deform_conv2d is compared with computes what ours does, also where a stream is behind when a call is made."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("deform_conv2d")
    monkeypatch.setattr(module, "ROUNDS", 1)
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield module
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
    sys.modules.pop("deform_conv2d", None)


def case(device: str, channels: int = 16) -> Any:
    return (2, channels, 16, 16), torch.float32, "nowhere" if device == "cuda" else ""


def behind(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Keep the current stream busy for some milliseconds before the call: a kernel on another one does not wait."""

    def called() -> Tensor:
        torch.cuda._sleep(20_000_000)
        return call()

    return called


@pytest.mark.compile
@pytest.mark.parametrize("phase", ["forward", "both"])
def test_a_row_on_the_cpu(benchmark: ModuleType, phase: str) -> None:
    row = benchmark.measure(phase, case("cpu"), "cpu")
    assert {"opsmith", "textbook"} <= set(row["seconds"])
    assert max(row["difference"].values()) < 1e-4
    assert "graph" not in row


# torchvision up to 0.28 launches some of its kernels on the default stream: on another one they run before the tensors are
# there that they read, and the results are wrong.
@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_both_sides_compute_in_the_order_of_their_stream(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    contenders = benchmark.contenders
    monkeypatch.setattr(
        benchmark, "contenders", lambda *of: {name: behind(call) for name, call in contenders(*of).items()}
    )
    with torch.cuda.stream(torch.cuda.Stream()):  # as `record` does
        row = benchmark.measure(phase, case("cuda", channels=64), "cuda")
    assert row["difference"]["torchvision"] < 1e-4
    assert set(row["seconds"]) == {"opsmith", "torchvision"}
    assert set(row["graph"]["seconds"]) == {"opsmith"}
