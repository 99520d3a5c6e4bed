"""Writes what goes wrong with a kernel as compilers write it: file, line, column, message."""

from __future__ import annotations

from typing import Any

from .triton_kernel import RefusalError, closure, place_of

__all__ = ["compile_error"]


def compile_error(error: BaseException, function: Any) -> str:
    """Return the messages of Triton's error: where it is, and by which calls the kernel came there."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    placed = [(found, place) for found in chain if (place := _place(found, function)) is not None]
    what = _reason(chain)
    if not placed:
        file, line = place_of(function)
        return f"{file}:{line}: error: {what}"
    lines = [f"{placed[-1][1]}: error: {what}"]
    lines += [f"{place}: note: called from here" for _, place in reversed(placed[:-1])]
    return "\n".join(lines)


def _reason(chain: list[BaseException]) -> str:
    """Return the words of the innermost error that has any."""
    for error in reversed(chain):
        text = getattr(error, "error_message", None) or (None if hasattr(error, "node") else str(error))
        if text:
            prefix = "" if hasattr(error, "node") or isinstance(error, RefusalError) else f"{type(error).__name__}: "
            return prefix + " ".join(text.split())
    return _first_line(chain[0])


def _place(error: BaseException, function: Any) -> str | None:
    """Return `file:line:column` of Triton's own errors, which count lines from the function's own."""
    node, text = getattr(error, "node", None), getattr(error, "src", None)
    if node is None or not hasattr(node, "lineno"):
        return None
    owner = next((each for each in closure(function) if each.src == text), function)
    file, line = place_of(owner)
    return f"{file}:{line + node.lineno - 1}:{node.col_offset + 1}"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}".partition("\n")[0]
