"""What the tests of profiles share: the operators in `kit_profile/`, and limits with which a profile takes no time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opsmith.profiler.ladder import RoundLimits

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def quick() -> RoundLimits:
    """Return limits of few rounds."""
    return RoundLimits(rounds=3, seconds=0.0, most_rounds=3)
