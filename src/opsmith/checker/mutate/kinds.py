"""Lists the kinds of mutation: each a fault that people make, and a function that finds where it can be made.

A function yields edits of one body: the tokens to replace, and the text that replaces them. What does not compile, or gives
the same machine code, is sorted out by building it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from opsmith.checker.mutate import expressions, statements
from opsmith.checker.mutate.edit import Edit
from opsmith.checker.mutate.functions import Body
from opsmith.checker.mutate.source import Source

__all__ = ["KINDS", "MutationKind"]


@dataclass(frozen=True)
class MutationKind:
    """A kind of mutation, as the report calls it, and what it is."""

    name: str
    title: str
    find: Callable[[Source, Body], Iterator[Edit]]


KINDS: tuple[MutationKind, ...] = (
    MutationKind("bound", "a loop starts or ends one step off", expressions.bounds),
    MutationKind("comparison", "another comparison: < for <=, >= for <, != for ==", expressions.comparisons),
    MutationKind("arithmetic", "- for +, / for *", expressions.arithmetic),
    MutationKind("sign", "a minus or a ! left out, -- for ++", expressions.signs),
    MutationKind("logic", "|| for &&", expressions.logic),
    MutationKind("constant", "a whole number one more, another one larger by 1 %", expressions.constants),
    MutationKind("guard", "the condition of an if always true, or never", statements.guards),
    MutationKind(
        "type", "T for compute_t<T>, float for double, int16_t for int64_t, int32_t in offsets", statements.types
    ),
    MutationKind("extreme", "min for max", statements.extremes),
    MutationKind("assignment", "an assignment left out", statements.dropped),
    MutationKind("call", "a call left out", statements.dropped_calls),
    MutationKind("index", "two indices of a view exchanged", statements.indices),
    MutationKind("argument", "two arguments of a call exchanged", statements.arguments),
    MutationKind("function", "log(1 + x) for log1p(x), x for |x|", statements.functions),
    MutationKind("stride", "a stride taken for 1 or for the size", statements.strides),
    MutationKind("atomic", "an atomic addition that is a plain one", statements.atomics),
)
