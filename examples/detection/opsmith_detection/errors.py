"""What the exceptions of this package have in common."""

from __future__ import annotations

from pydantic import ValidationError

__all__ = ["DetectionError", "explain"]


class DetectionError(Exception):
    """Something is wrong with what a run was given, or with the run. The message says so without a traceback."""


def explain(error: ValidationError) -> str:
    """Return a line for each entry that does not fit, innermost: its place, why, and the beginning of what was found."""
    errors = error.errors()
    around = {e["loc"][:depth] for e in errors for depth in range(len(e["loc"]))}
    return "\n".join(
        f"  {'.'.join(map(str, e['loc']))}: {e['msg']} (found {e['input']!r:.200})"
        for e in errors
        if e["loc"] not in around
    )
