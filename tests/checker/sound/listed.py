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
            found |= {name: (made, None) for name, made in vars(module).items() if isinstance(made, Operator)}
            found |= getattr(module, "OPERATORS", {})
    return found


OPERATORS = _listed()
