"""What the fast entry in C++ must know of an operator to parse its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opsmith.spec.definition import Definition

__all__ = ["EntryParameter", "EntryPlan", "plan_entry"]


@dataclass(frozen=True)
class EntryParameter:
    """One parameter; `type` is its type in the schema."""

    name: str
    type: str
    keyword_only: bool
    has_default: bool
    default: Any


@dataclass(frozen=True)
class EntryPlan:
    """An operator's name and parameters, and the positions of the outputs that the caller gets. bridge/entry.h reads it."""

    operator_name: str
    parameters: tuple[EntryParameter, ...]
    visible: tuple[int, ...]


def plan_entry(definition: Definition) -> EntryPlan:
    """Return the plan of an operator's fast entry."""
    signature = definition.signature
    return EntryPlan(
        definition.qualified_name,
        tuple(
            EntryParameter(item.name, item.kind.value, item.keyword_only, item.has_default, item.default)
            for item in signature.parameters
        ),
        tuple(index for index, output in enumerate(signature.outputs) if not output.saved),
    )
