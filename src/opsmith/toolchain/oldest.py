"""Says which host compilers are too old."""

from __future__ import annotations

__all__ = ["OLDEST_HOST"]

# The first major versions that know -std=c++20, which PyTorch's headers need.
OLDEST_HOST = {"gcc": 10, "clang": 10}
