"""Writes what goes wrong with a kernel in CuTe DSL as compilers write it: file, line, column, message."""

from __future__ import annotations

from collections.abc import Collection

from .importing import error_at_line

__all__ = ["cute_error"]


def cute_error(error: BaseException, files: Collection[str]) -> str:
    """Return the message of an error at a line of some files, the kernel's first, with CuTe DSL's advice.

    Its own errors say where they are; others are where Python was in the kernel when they were raised.
    """
    file, line, column = (getattr(error, name, None) for name in ("filename", "line", "col"))
    message = getattr(error, "message", None)
    if file not in files or not isinstance(line, int) or not message:
        return error_at_line(error, files)
    place = f"{file}:{line}" if column is None else f"{file}:{line}:{column + 1}"
    advice = getattr(error, "suggestion", None) or ()
    notes = [advice] if isinstance(advice, str) else [str(each) for each in advice]
    return "\n".join([f"{place}: error: {_line(message)}", *(f"{place}: note: {_line(note)}" for note in notes)])


def _line(text: str) -> str:
    return " ".join(text.split())
