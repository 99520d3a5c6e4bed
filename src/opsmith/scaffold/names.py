"""Decides which names a new project can have: those that pip, Python and PyTorch's dispatcher can all live with."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec

from opsmith.errors import ArgumentValueError

__all__ = ["module_of", "refuse_name"]

_LONGEST = 50
_NAME = re.compile(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")
# What the project needs for itself, and what PyTorch's dispatcher has taken: the module is the operators' namespace.
_FOLDERS = frozenset({"bench", "build", "conda", "dist", "docs", "hub", "tests", "typings"})
_NAMESPACES = frozenset({"aten", "c10", "c10d", "prim", "prims", "quantized"})


def module_of(name: str) -> str:
    """Return the module that is imported for a project's name: `fast-norm` is `fast_norm`."""
    return re.sub(r"[-.]", "_", name)


def refuse_name(name: str) -> None:
    """Raise ArgumentValueError, with a name that would do where there is one, if a project cannot have this name."""
    if not _NAME.fullmatch(name):
        better = _nearest(name)
        raise ArgumentValueError(
            f"{name!r} cannot name a project: it takes lower-case letters and digits, begins with a letter, and has single "
            f"'-', '_' or '.' between words{f', such as {better}' if better else ''}"
        )
    if len(name) > _LONGEST:
        raise ArgumentValueError(f"{name!r} has {len(name)} characters; a project's name has at most {_LONGEST}")
    module = module_of(name)
    if reason := _reason_against(module):
        raise ArgumentValueError(f"{name!r} cannot name a project: {reason}. Choose another name, such as {name}-ops")


def _reason_against(module: str) -> str | None:
    if keyword.iskeyword(module):
        return f"`import {module}` is a syntax error, because it is a keyword of Python"
    if module in _FOLDERS:
        return f"the project has {module} for something else"
    if module in _NAMESPACES:
        return f"torch.ops.{module} belongs to PyTorch"
    if module in sys.stdlib_module_names:
        return f"Python has a module {module}"
    if place := _installed(module):
        return f"`import {module}` already finds {place}"
    return None


def _installed(module: str) -> str | None:
    """Return where a module would be imported from; a folder without Python files is none."""
    spec = find_spec(module)
    return spec.origin if spec is not None else None


def _nearest(name: str) -> str | None:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    words = re.sub(r"^[0-9-]+", "", words)[:_LONGEST].strip("-")
    return words if _NAME.fullmatch(words) else None
