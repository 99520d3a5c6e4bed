"""Which operators this process has declared, by module, and where PyTorch has those that are loaded.

By module, because a module's operators are built into one library.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

from opsmith.errors import DefinitionError

if TYPE_CHECKING:
    from opsmith.runtime.operator import Operator

__all__ = ["declare", "operators_of", "overload_of", "pending"]

_lock = threading.Lock()
_by_module: dict[str, dict[str, Operator]] = {}
_by_name: dict[str, Operator] = {}


def declare(operator: Operator) -> None:
    """Add an operator; raises DefinitionError where another file has taken its name, or where it is in use already.

    The same definition again (a module that is reloaded, a notebook cell that is run again) replaces the one before, as
    long as nothing was called: PyTorch cannot forget an operator that is registered.
    """
    definition = operator.definition
    with _lock:
        known = _by_name.get(definition.qualified_name)
        if known is not None:
            before = known.definition
            if (before.module, before.file) != (definition.module, definition.file):
                raise DefinitionError(
                    f"torch.ops has one {definition.qualified_name}, and it is declared at {before.place}; give the one at "
                    f"{definition.place} another name, or a namespace of its own with @opsmith.op(namespace=...)"
                )
            if known.is_loaded:
                raise DefinitionError(
                    f"{definition.qualified_name} is in use already and PyTorch cannot unload it. Start a new process "
                    "(restart the notebook's kernel), or declare it under another name"
                )
        _by_name[definition.qualified_name] = operator
        _by_module.setdefault(definition.module, {})[definition.qualified_name] = operator


def operators_of(module: str) -> tuple[Operator, ...]:
    """Return the operators that a module has declared, in order."""
    with _lock:
        return tuple(_by_module.get(module, {}).values())


def pending(module: str) -> tuple[Operator, ...]:
    """Return those of them that are not loaded yet."""
    return tuple(operator for operator in operators_of(module) if not operator.is_loaded)


def overload_of(qualified_name: str) -> Any:
    """Return an operator of `torch.ops` by its qualified name."""
    namespace, name = qualified_name.split("::")
    return getattr(getattr(torch.ops, namespace), name).default
