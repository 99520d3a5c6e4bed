"""Tells whether this machine has NVRTC, for tests that compile with it."""

from __future__ import annotations

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_nvrtc

__all__ = ["needs_nvrtc"]


def _is_here() -> bool:
    try:
        find_nvrtc()
    except ToolchainError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not _is_here(), reason="NVRTC is not installed")
