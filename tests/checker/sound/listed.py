"""Lists the correct operators of this folder: those of opsmith's in its modules, and what their OPERATORS name."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from opsmith.runtime.operator import Operator

__all__ = ["OPERATORS"]


def _listed() -> dict[str, tuple[Any, Any]]:
    """Return each operator with its reference, None where that is its own body."""
    found: dict[str, tuple[Any, Any]] = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.stem not in ("__init__", "listed"):
            module = importlib.import_module(f"{__package__}.{file.stem}")
            found |= {name: (made, None) for name, made in vars(module).items() if _has_body(made)}
            found |= getattr(module, "OPERATORS", {})
    return found


def _has_body(made: object) -> bool:
    """Whether something is an operator with a reference; a backward may be declared without one."""
    return isinstance(made, Operator) and not made.definition.is_derived


OPERATORS = _listed()
