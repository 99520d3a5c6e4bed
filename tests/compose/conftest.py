"""What these tests share: `compose_kit`, and random numbers that do not depend on which tests ran before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

# `from compose_kit import table`: the operators and how they are called.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Make every test draw the same random numbers, whichever ran before."""
    torch.manual_seed(0)
