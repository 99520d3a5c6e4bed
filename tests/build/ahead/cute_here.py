"""Tells whether this Python has CuTe DSL, for tests that compile with it."""

from __future__ import annotations

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_cute

__all__ = ["needs_cute"]


def _is_here() -> bool:
    try:
        find_cute()
    except ToolchainError:
        return False
    return True


needs_cute = pytest.mark.skipif(not _is_here(), reason="CuTe DSL (nvidia-cutlass-dsl) is not installed")
