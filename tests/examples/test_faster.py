"""The steps of examples/faster compute one thing, and each is as right as the first."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

FASTER = Path(__file__).parents[2] / "examples" / "faster"
STEPS = ("naive", "one_exp", "vectors", "threads", "direct", "ahead")

pytestmark = pytest.mark.compile


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FASTER))
    yield importlib.import_module("faster")


def test_each_step_has_its_kernel(faster: ModuleType) -> None:
    assert sorted(faster.__all__) == sorted(STEPS)
    kernels = {path.stem for path in FASTER.glob("*.cpp")}
    assert kernels == {f"{number}_{step}" for number, step in enumerate(STEPS, start=1)}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_the_definition(faster: ModuleType, step: str) -> None:
    torch.manual_seed(0)
    weights = getattr(faster, step)
    for rows, columns in ((0, 5), (3, 0), (1, 1), (7, 33), (40, 1000)):
        scores = torch.randn(rows, 2 * columns, dtype=torch.float64)
        bias = torch.randn(columns, dtype=torch.float64)
        for given in (scores[:, ::2], scores[:, :columns], scores.T.contiguous().T[:, :columns]):
            torch.testing.assert_close(weights(given, bias, 0.7), faster.body(given, bias, 0.7))
            for dtype in (torch.float32, torch.float16):
                low = given.to(dtype), bias.to(dtype)
                expected = faster.body(low[0].double(), low[1].double(), 0.7).to(dtype)
                torch.testing.assert_close(weights(*low, 0.7), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.nightly("a whole check of each step; make test compares their values")
@pytest.mark.parametrize("step", STEPS)
def test_a_step_passes_the_check(faster: ModuleType, step: str) -> None:
    import opsmith

    report = opsmith.check(getattr(faster, step))
    assert report.ok, str(report)
