"""Parses the conditions of configurations, comparisons of sizes, and evaluates them in Python or writes them in C++."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opsmith.errors import DefinitionError
from opsmith.spec.dims import Expression
from opsmith.spec.launch_numbers import parse_number

__all__ = ["Condition", "parse_condition"]

# A comparison as C++ writes it, and in Python.
_COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[int, int], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}


@dataclass(frozen=True)
class Condition:
    """Comparisons of sizes, such as "N <= 1024 and N % 16 == 0"; `text` is as written."""

    text: str
    tree: ast.expr = field(repr=False, compare=False)

    @property
    def names(self) -> frozenset[str]:
        """The names that the condition needs a value for."""
        return frozenset(name for leaf in _leaves(self.tree) for name in _expression(leaf).names)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Tell whether the condition holds for given names."""
        return _holds(self.tree, values)

    def cpp(self, names: Mapping[str, str]) -> str:
        """Return the condition as C++; `names` maps a name to its C++ spelling."""
        return _cpp(self.tree, names)


def parse_condition(where: str, text: object) -> Condition:
    """Return a condition as it is written; raises DefinitionError, which names `where`, for what is not one."""
    if not isinstance(text, str):
        raise DefinitionError(f'{where}: when is {text!r:.60}, expected text such as "N <= 1024"')
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        tree = ast.Constant(None)
    if not _is_condition(tree):
        raise DefinitionError(
            f'{where}: when={text!r} is not a condition; compare sizes, such as "N <= 1024 and M > 1"'
        )
    for leaf in _leaves(tree):
        parse_number(ast.unparse(leaf), f"{where}: when")
    return Condition(text, tree)


def _is_condition(tree: ast.expr) -> bool:
    match tree:
        case ast.BoolOp(values=values):
            return all(map(_is_condition, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_condition(operand)
        case ast.Compare(ops=ops):
            return all(type(op) in _COMPARISONS for op in ops)
    return False


def _leaves(tree: ast.expr) -> list[ast.expr]:
    """Return what a condition compares."""
    match tree:
        case ast.BoolOp(values=values):
            return [leaf for value in values for leaf in _leaves(value)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _leaves(operand)
        case ast.Compare(left=left, comparators=comparators):
            return [left, *comparators]
    raise AssertionError(ast.dump(tree))


def _expression(tree: ast.expr) -> Expression:
    return parse_number(ast.unparse(tree), "when")


def _holds(tree: ast.expr, values: Mapping[str, int]) -> bool:
    match tree:
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(_holds(part, values) for part in parts)
        case ast.UnaryOp(operand=operand):
            return not _holds(operand, values)
        case ast.Compare(ops=ops):
            sides = [_expression(leaf).evaluate(values) for leaf in _leaves(tree)]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return all(_COMPARISONS[type(op)][1](a, b) for a, op, b in pairs)
    raise AssertionError(ast.dump(tree))


def _cpp(tree: ast.expr, names: Mapping[str, str]) -> str:
    match tree:
        case ast.BoolOp(op=op, values=parts):
            word = " && " if isinstance(op, ast.And) else " || "
            return f"({word.join(_cpp(part, names) for part in parts)})"
        case ast.UnaryOp(operand=operand):
            return f"!({_cpp(operand, names)})"
        case ast.Compare(ops=ops):
            sides = [_expression(leaf).cpp(names) for leaf in _leaves(tree)]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return f"({' && '.join(f'{a} {_COMPARISONS[type(op)][0]} {b}' for a, op, b in pairs)})"
    raise AssertionError(ast.dump(tree))
