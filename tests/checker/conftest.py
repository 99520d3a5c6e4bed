"""What the tests of `opsmith check` share: small operators, in kit and in the folders beside it, and what checks import."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """Import here what the child processes of each of two hundred checks would import anew, for 1.6 s each time."""
    for name in ("hypothesis", "torch._dynamo", "torch._inductor"):
        importlib.import_module(name)
