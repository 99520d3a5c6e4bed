"""What the tests of profiles share: the operators in `kit_profile/`, and a pace at which a profile takes no time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opsmith.profiler.ladder import Pace

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def quick() -> Pace:
    """Return a pace of few rounds."""
    return Pace(rounds=3, seconds=0.0, most_rounds=3)
