"""Plans which arguments are cast under torch.autocast, and to what, from a definition's `autocast=`.

This is data alone, by the arguments' positions, so that running it needs nothing else of a definition. float64 and
integers are never cast: autocast is a choice among the types of at most 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from opsmith.errors import DefinitionError
from opsmith.spec.signature import Parameter, Signature

__all__ = ["LOW_TYPES", "Autocast", "CastGroup", "CastPlan", "check_autocast", "choose_type", "plan_casts"]

Autocast = Literal["promote", "low", "float32"]

# The types among which autocast chooses, by torch's names.
LOW_TYPES = ("float16", "bfloat16", "float32")


class CastGroup(NamedTuple):
    """The positions of the arguments that share one template parameter, and the types that it may stand for."""

    arguments: tuple[int, ...]
    allowed: frozenset[str]


class CastPlan(NamedTuple):
    """What to cast: each group of arguments to one type by the rule, and each pinned argument to its only type."""

    rule: Autocast
    groups: tuple[CastGroup, ...]
    pinned: tuple[tuple[int, str], ...]


def check_autocast(signature: Signature, rule: object) -> None:
    """Reject anything but a rule; raises DefinitionError."""
    if rule is not None and rule not in get_args(Autocast):
        words = ", ".join(repr(word) for word in get_args(Autocast))
        raise DefinitionError(f"{signature.name}: autocast= is {rule!r}; it must be {words} or None")
    if rule in ("low", "float32") and signature.mutated:
        raise DefinitionError(
            f"{signature.name}: autocast={rule!r} would write to a cast copy of {signature.mutated[0].name} instead of to "
            "the argument; an operator that writes to its arguments needs autocast=None or 'promote'"
        )


def plan_casts(signature: Signature, rule: Autocast | None) -> CastPlan | None:
    """Return the plan of an operator, or None if nothing can ever be cast.

    An argument that is written to is never cast, nor are those that must have its type.
    """
    if rule is None:
        return None
    by_letter: dict[str, list[Parameter]] = {}
    pinned = []
    for parameter in signature.tensors:
        tensor = parameter.tensor_type
        if tensor.letter is not None and tensor.is_floating:
            by_letter.setdefault(tensor.letter, []).append(parameter)
        elif tensor.pinned is not None and tensor.is_floating and not parameter.mutated:
            pinned.append((signature.parameters.index(parameter), tensor.pinned.name))
    groups = tuple(
        CastGroup(
            tuple(signature.parameters.index(parameter) for parameter in parameters),
            frozenset(signature.dtypes[letter]),
        )
        for letter, parameters in by_letter.items()
        if not any(parameter.mutated for parameter in parameters)
    )
    return CastPlan(rule, groups, tuple(pinned)) if groups or pinned else None


def choose_type(rule: Autocast, allowed: frozenset[str], given: Iterable[str], low: str) -> str | None:
    """Return the type that a group's arguments of low types are cast to, or None if they stay.

    `given` are the arguments' types and `low` is the one that autocast is set to, by torch's names. They stay where one
    of them is not a low type, and where the operator does not take what the rule asks for and their widest type
    neither.
    """
    types = set(given)
    if not types or not types <= set(LOW_TYPES):
        return None
    # float16 and bfloat16 hold numbers that the other does not.
    widest = types.pop() if len(types) == 1 else "float32"
    wanted = {"promote": widest, "low": low, "float32": "float32"}[rule]
    return next((name for name in (wanted, widest) if name in allowed), None)
