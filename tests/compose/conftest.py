"""What these tests share: `compose_kit`, and the C++ gradient path where nobody chose another."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# `from compose_kit import table`: the operators and how they are called.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def gradient_path() -> Iterator[None]:
    """Wait for the C++ gradient path, so that a run does not test whichever path happens to be ready.

    `OPSMITH_BRIDGE=off pytest tests/compose` tests the path in Python.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSMITH_BRIDGE", os.environ.get("OPSMITH_BRIDGE", "wait"))
        yield


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Make every test draw the same random numbers, whichever ran before."""
    import torch

    torch.manual_seed(0)
