"""Looks up what the stable ABI has instead of a name of torch's C++ API; the table is data/replacements.tsv."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Replacement", "find_replacement", "replacements"]

# Much of a Tensor is inherited from at::TensorBase, which is what its symbols are named after.
_TENSOR = ("TENSOR::", "at::Tensor(?:Base)?::")
# An overload's name is joined to the operator's by the generator of at::_ops, which leaves both ambiguous in rare cases.
_OPERATOR = re.compile(
    r"at::_ops::(\w+?)(?:_(Tensor|Scalar|int|dim|out|default|names|self|stable|\w+_out|dim_\w+|using_ints|memory_format))?::"
)


@dataclass(frozen=True)
class Replacement:
    """What replaces the names that match a pattern; nothing where `stable` is empty. `source` finds their use in C++."""

    pattern: str
    source: str
    stable: str
    since: str


@cache
def replacements() -> tuple[Replacement, ...]:
    """Return the table, in the order in which its rows are tried."""
    text = (files("opsmith.package.audit") / "data" / "replacements.tsv").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(Replacement(name.replace(*_TENSOR), *rest) for name, *rest in lines[1:])


def find_replacement(name: str) -> Replacement | None:
    """Return what replaces a demangled name, or None if the table does not have it."""
    for pattern, row in _compiled():
        if pattern.match(name):
            return _of_operator(name, row) if "{op}" in row.stable else row
    return None


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Replacement], ...]:
    return tuple((re.compile(rf"(?:.*?\s)?(?:{row.pattern})"), row) for row in replacements())


def _of_operator(name: str, row: Replacement) -> Replacement:
    """Return the row for an ATen operator with the operator's own name in it."""
    found = _OPERATOR.search(name)
    op, overload = (found[1], found[2] or "") if found else ("", "")
    call = row.stable.replace("{op}", op).replace("{overload}", overload)
    return Replacement(row.pattern, rf"\b{re.escape(op)}\(", call, row.since)
