"""Where tests keep what outlives a run: build/test-cache, or the folder in OPSMITH_TEST_CACHE."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE"]

CACHE = Path(os.environ.get("OPSMITH_TEST_CACHE") or Path(__file__).parents[1] / "build" / "test-cache").resolve()
