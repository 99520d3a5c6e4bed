"""Compares the schemas of two releases: what breaks for those who call the operators, and what does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opsmith.package.audit.schemas import Argument, Schema

__all__ = ["Change", "compare_schemas"]

# Callers who pass the old type still pass one that is accepted.
_WIDENED = {("int", "SymInt"), ("int", "Scalar"), ("float", "Scalar"), ("int", "float"), ("bool", "SymBool")}


@dataclass(frozen=True)
class Change:
    """One difference between two releases. `breaks` says whether calls that were right may fail or do another thing."""

    operator: str
    what: str
    was: str
    now: str
    breaks: bool


def compare_schemas(old: Iterable[Schema], new: Iterable[Schema]) -> tuple[Change, ...]:
    """Return the changes from the old release to the new one, in the order of the operators' names."""
    after = list(new)
    changes: list[Change] = []
    taken: set[str] = set()
    for schema in sorted(old, key=lambda item: item.qualified):
        same = [candidate for candidate in after if _is_same_operator(schema, candidate)]
        # An operator may be registered twice under one name with other types, as vendors of two devices do.
        exact = next((candidate for candidate in same if candidate.text == schema.text), None)
        if exact is not None or same:
            found = exact or same[0]
            taken.add(found.text)
            changes += _changes(schema, found)
        else:
            changes.append(Change(schema.qualified, "operator removed", schema.text, "", True))
    for schema in after:
        if schema.text not in taken:
            changes.append(Change(schema.qualified, "operator added", "", schema.text, False))
    return tuple(changes)


def _is_same_operator(old: Schema, new: Schema) -> bool:
    if (old.name, old.overload) != (new.name, new.overload):
        return False
    return not old.namespace or not new.namespace or old.namespace == new.namespace


def _changes(old: Schema, new: Schema) -> Iterator[Change]:
    name = new.qualified
    before = {argument.name: argument for argument in old.arguments}
    after = {argument.name: argument for argument in new.arguments}
    for argument in old.arguments:
        if argument.name not in after:
            yield Change(name, "argument removed", str(argument), "", True)
        else:
            yield from _argument_changes(name, argument, after[argument.name])
    for argument in new.arguments:
        if argument.name not in before:
            has_default = argument.default is not None
            what = "argument added" if has_default else "argument without a default added"
            yield Change(name, what, "", str(argument), not has_default)
    yield from _order(name, old, new)
    yield from _returns(name, old, new)


def _argument_changes(operator: str, old: Argument, new: Argument) -> Iterator[Change]:
    if old.type != new.type:
        is_wider = new.type == f"{old.type}?" or (old.type.rstrip("?"), new.type.rstrip("?")) in _WIDENED
        # A wider type that no longer takes None is not wider.
        is_wider &= not (old.type.endswith("?") and not new.type.endswith("?"))
        yield Change(operator, "type changed", str(old), str(new), not is_wider)
    if old.default != new.default:
        what = (
            "default removed" if new.default is None else "default added" if old.default is None else "default changed"
        )
        yield Change(operator, what, str(old), str(new), old.default is not None)
    if old.is_mutated != new.is_mutated:
        what = "mutation mark lost" if old.is_mutated else "argument is written to now"
        yield Change(operator, what, str(old), str(new), True)
    if new.is_keyword_only and not old.is_keyword_only:
        yield Change(operator, "argument is keyword-only now", str(old), str(new), True)


def _order(operator: str, old: Schema, new: Schema) -> Iterator[Change]:
    """Yield a change if a call with positional arguments would give them to others."""
    now = [argument.name for argument in new.arguments if not argument.is_keyword_only]
    was = [argument.name for argument in old.arguments if not argument.is_keyword_only]
    kept_now = [name for name in now if name in was]
    kept_was = [name for name in was if name in now]
    if kept_now != kept_was:
        yield Change(operator, "arguments reordered", ", ".join(was), ", ".join(now), True)
    elif kept_now and now[: len(kept_now)] != kept_now:
        inserted = next(name for name in now if name not in was)
        yield Change(operator, f"argument {inserted} stands before older ones", ", ".join(was), ", ".join(now), True)


def _returns(operator: str, old: Schema, new: Schema) -> Iterator[Change]:
    was, now = [item.type for item in old.returns], [item.type for item in new.returns]
    if was != now:
        yield Change(operator, "results changed", ", ".join(was) or "()", ", ".join(now) or "()", True)
    elif [item.is_mutated for item in old.returns] != [item.is_mutated for item in new.returns]:
        yield Change(operator, "aliasing of the results changed", old.text, new.text, True)
