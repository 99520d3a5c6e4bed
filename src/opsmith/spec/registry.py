"""Keeps the operators that this process has declared, by module: a module's operators are built into one library."""

from __future__ import annotations

from typing import Protocol

from opsmith._forks import Lock
from opsmith.errors import DefinitionError
from opsmith.spec.definition import Definition

__all__ = ["Declared", "declare", "declared_in"]


class Declared(Protocol):
    """An operator as the registry knows it; what can be called and loaded is `runtime.operator.Operator`."""

    @property
    def definition(self) -> Definition:
        """What was declared, as of now: a backward or a rule may still be added."""

    @property
    def is_loaded(self) -> bool:
        """Whether the operator is registered with PyTorch."""


_lock = Lock()
_by_module: dict[str, dict[str, Declared]] = {}
_by_name: dict[str, Declared] = {}


def declare(operator: Declared) -> None:
    """Add an operator; raises DefinitionError if another file has taken its name, or if it is in use already.

    The same definition again (a module that is reloaded, a notebook cell that is run again) replaces the previous one
    unless that was called: PyTorch cannot forget an operator that is registered.
    """
    definition = operator.definition
    with _lock:
        known = _by_name.get(definition.qualified_name)
        if known is not None:
            before = known.definition
            if (before.module, before.file) != (definition.module, definition.file):
                raise DefinitionError(
                    f"{definition.qualified_name} is already declared at {before.location}; give the one at "
                    f"{definition.location} another name, or its own namespace with @opsmith.op(namespace=...)"
                )
            if known.is_loaded:
                raise DefinitionError(
                    f"{definition.qualified_name} is already in use, and PyTorch cannot unload it. Start a new process "
                    "(in a notebook, restart the kernel, or declare operators in %%opsmith cells, which can be run again), "
                    "or declare it under another name"
                )
        _by_name[definition.qualified_name] = operator
        _by_module.setdefault(definition.module, {})[definition.qualified_name] = operator


def declared_in(module: str) -> tuple[Declared, ...]:
    """Return the operators that a module has declared, in order."""
    with _lock:
        return tuple(_by_module.get(module, {}).values())
