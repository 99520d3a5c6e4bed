"""Lists the values to try for an argument that is not a tensor, the plain one first.

Above 1, below 0 and 0 itself for floats, -1 to 5 for ints, what a Literal allows, and what the body compares an argument
with. A reference that does not take one of them raises, and then nothing is known of the kernel.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opsmith.spec.signature import Kind, Parameter

__all__ = ["is_unusual", "named_values", "values_of"]

_INTS = (-1, 0, 5, 1, 2, 3, 4)
# 0.3 has no end in binary: a float32 is not enough of it for float64. Whole ones come last, for squares and cubes of
# which kernels have code of their own.
_FLOATS = (0.3, 2.5, -0.75, 0.0, 1.0, 3.0, 2.0)
# A reference may take a list of one length alone, which no annotation says.
_OF_ONE_LENGTH = (Kind.INT_LIST, Kind.FLOAT_LIST, Kind.STR)
# Values for arguments that no default names; the first is the plain one.
_WITHOUT_DEFAULT: dict[Kind, tuple[Any, ...]] = {
    Kind.INT: (1, 2, *_INTS),
    Kind.FLOAT: (0.5, 1.0, *_FLOATS),
    Kind.BOOL: (True, False),
    Kind.STR: ("",),
    Kind.INT_LIST: ((1, 1), (2, 1), (1, 2), (0, 0)),
    Kind.FLOAT_LIST: ((0.5, 1.5), (1.0,), (2.5, -0.75)),
    Kind.OPTIONAL_INT: (None, 1, 2, *_INTS),
    Kind.OPTIONAL_FLOAT: (None, 0.5, *_FLOATS),
    Kind.OPTIONAL_BOOL: (None, True, False),
}
# A list that is so many times as long as the default.
_LONGER = 3
_SIMPLE = (str, int, float)


def values_of(parameter: Parameter, named: tuple[Any, ...], given: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Return the values to try; `named` are those that the definition names, `given` those of the examples.

    Those of the examples come first where nothing else tells what a reference takes, and their texts are tried anyway.
    """
    tried = _WITHOUT_DEFAULT[parameter.kind]
    if parameter.has_default:
        default = tuple(parameter.default) if isinstance(parameter.default, list | tuple) else parameter.default
        tried = (default, *_beside(parameter.kind, default))
    texts = given if parameter.kind is Kind.STR else ()
    fitting = [value for value in (*named, *texts) if _fits(parameter.kind, value)]
    if parameter.kind is Kind.STR and not parameter.has_default and fitting:
        tried = ()
    first = given if parameter.kind in _OF_ONE_LENGTH and not parameter.has_default else ()
    return tuple({repr(value): value for value in (*first, *tried[:1], *fitting, *tried[1:])}.values())


def is_unusual(value: Any) -> bool:
    """Whether a number may mean nothing to an operator, which may then refuse it: all ints, floats outside of 0 to 1."""
    if isinstance(value, tuple):
        return any(map(is_unusual, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or not 0 < value <= 1


def _beside(kind: Kind, default: Any) -> Iterator[Any]:
    """Yield other values than the default, the likeliest to mean something first."""
    if kind in (Kind.BOOL, Kind.OPTIONAL_BOOL):
        yield from (value for value in _WITHOUT_DEFAULT[kind] if value is not default)
        return
    if default is None:
        yield from _WITHOUT_DEFAULT[kind][1:]
    elif isinstance(default, float):
        # Half of a rate, a temperature or a margin is one, too.
        yield from (default / 2 if default else 0.5, *_FLOATS)
    elif isinstance(default, int):
        yield from (default + 1, *_INTS)
    elif isinstance(default, tuple) and default:
        yield from _lists_beside(default)
    if default is not None and kind in (Kind.OPTIONAL_INT, Kind.OPTIONAL_FLOAT):
        yield None


def _lists_beside(default: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield lists of other numbers: all larger, one of them alone, none of them equal, more of them, all zero."""
    yield tuple(number + 1 for number in default)
    if len(default) > 1:
        yield (default[0] + 1, *default[1:])
        yield (*default[:-1], default[-1] + 1)
        yield tuple(number + index for index, number in enumerate(default))
    yield default * _LONGER if len(default) > 1 else default
    yield tuple(0 * number for number in default)


def _fits(kind: Kind, value: Any) -> bool:
    types: Mapping[Kind, type] = {Kind.STR: str, Kind.INT: int, Kind.OPTIONAL_INT: int}
    floats = (Kind.FLOAT, Kind.OPTIONAL_FLOAT)
    if isinstance(value, bool):
        return False
    return isinstance(value, types.get(kind, float if kind in floats else type(None)))


def named_values(function: Callable[..., Any], names: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    """Return, by argument, the texts and numbers that a function compares it with, looks it up by, or matches it to.

    Empty where the function's source is not known.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, dict[Any, None]] = {name: {} for name in names}
    for node in ast.walk(tree):
        for name, values in _comparisons(node):
            if name in found:
                found[name] |= dict.fromkeys(values)
    return {name: tuple(values) for name, values in found.items() if values}


def _comparisons(node: ast.AST) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name of a variable and the constants that one node of a program compares it with."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        constants = [value for side in sides for value in _constants(side)]
        yield from ((name, constants) for side in sides if (name := _name_of(side)))
    elif isinstance(node, ast.Subscript) and (name := _name_of(node.slice)) and isinstance(node.value, ast.Dict):
        yield name, [value for key in node.value.keys if key is not None for value in _constants(key)]
    elif isinstance(node, ast.Match) and (name := _name_of(node.subject)):
        patterns = [pattern for case in node.cases for pattern in ast.walk(case.pattern)]
        values = [p.value for p in patterns if isinstance(p, ast.MatchValue)]
        yield name, [value for found in values for value in _constants(found)]


def _name_of(node: ast.expr) -> str:
    """Return the name of an argument, or of the field of one; "" for another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _constants(node: ast.expr) -> list[Any]:
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    found = []
    for item in items:
        try:
            value = ast.literal_eval(item)
        except (ValueError, TypeError):
            continue
        if isinstance(value, _SIMPLE):
            found.append(value)
    return found
