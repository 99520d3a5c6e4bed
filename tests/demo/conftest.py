"""A result of the demo that needed no compiler, and digits of which everything is known."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from opsmith.demo.agreement import Agreement, Tally
from opsmith.demo.builds import Build
from opsmith.demo.cases import DTYPES
from opsmith.demo.digits import Digits
from opsmith.demo.exactness import ErrorRow
from opsmith.demo.machine import Machine
from opsmith.demo.results import Results
from opsmith.demo.slopes import Slope
from opsmith.demo.timing import Spread, Timing
from opsmith.demo.training import Run

LABELS = [index % 10 for index in range(50)]


@pytest.fixture
def digits() -> Digits:
    images = torch.linspace(0, 1, 50 * 64).view(50, 8, 8)
    return Digits(images, torch.tensor(LABELS), images, torch.tensor(LABELS))


@pytest.fixture
def results() -> Results:
    """Everything is as promised, and 1 of 50 digits is wrong."""
    spread = Spread(2.0, 1.0, 3.0)
    return Results(
        machine=Machine("2026-01-01", "a processor", 2, 2, None, "Linux", "3.12", "2.13", "0.1", {"C++": "gcc 12"}),
        devices=("cpu",),
        gpu_missing="this PyTorch sees none",
        quick=False,
        seed=0,
        builds=(
            Build("jit", 1.5, "lib/jit/_ops.so", 2048, "a" * 64),
            Build("setuptools", 2.5, "lib/setuptools/_ops.so", 2048, "a" * 64),
            Build("cmake", left_out="CMake is <not> installed"),
        ),
        agreement=Agreement(("jit", "setuptools", "this process"), (Tally("opsmith::lltm_cell", 3, 1000, 0),), ()),
        errors=tuple(ErrorRow("lltm_cell", "value", "cpu", dtype, 1.0, 4.0) for dtype in DTYPES),
        slopes=(Slope(0.0, "cpu", 1.0, 0.0, 1.0), Slope(100.0, "cpu", 1.0, float("nan"), 1.0)),
        timings=(
            Timing((16, 32, 128), "cpu", "reference", 5, spread, spread, Spread(1.0, 1.0, 1.0)),
            Timing((16, 32, 128), "cpu", "opsmith C++", 5, spread, spread, Spread(2.0, 1.9, 2.1)),
        ),
        runs=(
            Run("opsmith C++", 1.0, 10, (2.0, 1.0), (0.5, 0.98), (*LABELS[:-1], 3)),
            Run("reference", 1.0, 10, (2.0, 1.0), (0.5, 0.98), (*LABELS[:-1], 3)),
        ),
        seconds=12.0,
    )


@pytest.fixture
def with_changes(results: Results):
    """Return the good results with some fields replaced."""
    return lambda **changes: dataclasses.replace(results, **changes)
