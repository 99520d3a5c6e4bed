"""What the exceptions of this package have in common."""

from __future__ import annotations

__all__ = ["DetectionError"]


class DetectionError(Exception):
    """Something is wrong with what a run was given, or with the run. The message says so without a traceback."""
