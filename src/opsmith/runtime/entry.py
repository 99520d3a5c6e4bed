"""What the fast entry in C++ must know of an operator to parse its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opsmith.spec.definition import Definition

__all__ = ["EntryPlan", "plan_entry"]


@dataclass(frozen=True)
class EntryPlan:
    """An operator's name, its parameters as (name, type in the schema, keyword-only, has a default, default), and the
    positions of the outputs that the caller gets. bridge/entry.cpp reads it."""

    operator_name: str
    parameters: tuple[tuple[str, str, bool, bool, Any], ...]
    visible: tuple[int, ...]


def plan_entry(definition: Definition) -> EntryPlan:
    """Return the plan of an operator's fast entry."""
    signature = definition.signature
    return EntryPlan(
        definition.qualified_name,
        tuple((p.name, p.kind.value, p.keyword_only, p.has_default, p.default) for p in signature.parameters),
        tuple(index for index, output in enumerate(signature.outputs) if not output.saved),
    )
