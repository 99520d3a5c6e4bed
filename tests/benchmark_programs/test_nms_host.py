"""Cases that fall into a slow phase of the host are measured again, while there is patience."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("nms")
    sys.modules.pop("nms", None)


def test_a_case_is_measured_again_until_the_host_is_fast(benchmark, monkeypatch):
    # The loop at the start, and before and after each of three tries: slow before, slow after, fast.
    loops = iter([1.0, 2.0, 1.1, 1.1, 2.0, 1.0, 1.1])
    monkeypatch.setattr(benchmark.Host, "_loop_s", staticmethod(lambda: next(loops)))
    tries = iter(["first", "second", "third"])
    assert benchmark.Host().at_full_speed(lambda: next(tries)) == ("third", 1.1)


def test_patience_ends(benchmark, monkeypatch):
    loops = iter([1.0, 2.0, 2.0])
    monkeypatch.setattr(benchmark.Host, "_loop_s", staticmethod(lambda: next(loops)))
    host = benchmark.Host()
    host.patience_s = -1.0
    assert host.at_full_speed(lambda: "slow") == ("slow", 2.0)
