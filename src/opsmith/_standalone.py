"""Says whose wheel this copy of opsmith is part of: nobody's here. `opsmith wheel --standalone` writes the file anew."""

from __future__ import annotations

__all__ = ["PROJECT"]

# The name of the wheel that requires no opsmith, or "" in opsmith itself.
PROJECT = ""
