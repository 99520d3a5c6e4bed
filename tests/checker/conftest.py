"""What the tests of `opsmith check` share: small operators, in kit and in the folders beside it, and what checks import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warm import warm_up

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """Load what checks use before they fork."""
    warm_up()
