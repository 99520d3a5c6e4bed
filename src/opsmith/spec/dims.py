"""Represents a size in a shape: integer arithmetic over named dimensions and int arguments.

    "B"    "3*S"    "S+I"    "(H*up+pad0+pad1-kh)//down+1"

An expression is parsed once, when the operator is declared. It is then evaluated in Python (on ints and on SymInts, so
that torch.compile sees the same arithmetic) and printed as C++ for the binding; both round as Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opsmith.errors import DefinitionError

__all__ = ["Affine", "Expression", "fits_64_bits", "parse_expression"]

# Functions that a dimension may call, and how the binding spells them.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "min": (min, "min_of"),
    "max": (max, "max_of"),
}

_PYTHON: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
# Functions of the binding's header: C++ truncates where Python floors, and its sums wrap where Python's grow.
_CPP: dict[type[ast.operator], str] = {
    ast.Add: "add({}, {})",
    ast.Sub: "subtract({}, {})",
    ast.Mult: "multiply({}, {})",
    ast.FloorDiv: "floor_div({}, {})",
    ast.Mod: "floor_mod({}, {})",
}

# How many nodes a syntax tree may have: parsing, evaluating and printing are recursive. Real sizes have a tenth of it.
_MOST_PARTS = 400


@dataclass(frozen=True)
class Affine:
    """`scale * name + offset`, both free of `name`: the form in which a size can be solved for `name`."""

    name: str
    scale: Expression
    offset: Expression


@dataclass(frozen=True)
class Expression:
    """Integer arithmetic over names; `text` is as written, `tree` its syntax tree."""

    text: str
    tree: ast.expr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def names(self) -> frozenset[str]:
        """The names that the expression needs a value for."""
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        return frozenset(
            node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and id(node) not in called
        )

    @property
    def name(self) -> str | None:
        """The name, where the expression is nothing but a name."""
        return self.tree.id if isinstance(self.tree, ast.Name) else None

    @property
    def constant(self) -> int | None:
        """The number, where the expression is nothing but a number."""
        return self.tree.value if isinstance(self.tree, ast.Constant) and isinstance(self.tree.value, int) else None

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the value for given names.

        Raises KeyError for a missing name, ZeroDivisionError as Python does, and OverflowError where a result, also one
        on the way, does not fit into 64 bits.
        """
        return _evaluate(self.tree, values)

    def cpp(self, names: Mapping[str, str] | None = None) -> str:
        """Return the expression as C++ over int64_t; `names` maps a name to its C++ spelling."""
        return _cpp(self.tree, names or {})

    def affine_in(self, name: str) -> Affine | None:
        """Return the expression as `scale * name + offset`, or None if `name` occurs in another way."""
        split = _affine(self.tree, name)
        if split is None or split[0] is None:
            return None
        scale, offset = split[0], split[1]
        return Affine(name, _from_tree(scale), _from_tree(offset or ast.Constant(0)))


def fits_64_bits(number: int) -> bool:
    """Whether an int is one of int64_t, which is what a schema and a binding have."""
    return -(1 << 63) <= number < 1 << 63


def parse_expression(text: str, *, where: str) -> Expression:
    """Parse one dimension; raises DefinitionError, which names `where`, for anything but integer arithmetic."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise DefinitionError(f"{where}: the dimension {_short(text)} is not an expression ({reason})") from None
    except (RecursionError, MemoryError):
        raise DefinitionError(f"{where}: the dimension {_short(text)} has too many parts") from None
    if (parts := sum(1 for _ in ast.walk(tree))) > _MOST_PARTS:
        raise DefinitionError(f"{where}: the dimension {_short(text)} has {parts} parts; {_MOST_PARTS} are allowed")
    _check(tree, text, where)
    return Expression(text, tree)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _from_tree(tree: ast.expr) -> Expression:
    return Expression(ast.unparse(tree), tree)


def _check(tree: ast.expr, text: str, where: str) -> None:
    match tree:
        case ast.Name():
            return
        case ast.Constant(value=value) if isinstance(value, int) and not isinstance(value, bool):
            if fits_64_bits(value):
                return
            raise DefinitionError(f"{where}: the dimension {_short(text)} has a number that does not fit into 64 bits")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, text, where)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _PYTHON:
            _check(left, text, where)
            _check(right, text, where)
        case ast.Call(func=ast.Name(id=function), args=[first, second], keywords=[]) if function in _FUNCTIONS:
            _check(first, text, where)
            _check(second, text, where)
        case ast.BinOp(op=ast.Div()):
            raise DefinitionError(f"{where}: the dimension {text!r} divides with `/`; sizes are integers, write `//`")
        case _:
            raise DefinitionError(
                f"{where}: the dimension {text!r} uses `{ast.unparse(tree)}`; a dimension is made of names, integers, "
                "+ - * // %, min(a, b), max(a, b) and parentheses"
            )


def _evaluate(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    match tree:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(operand=operand):
            return _in_64_bits(-_evaluate(operand, values))
        case ast.BinOp(left=left, op=op, right=right):
            return _in_64_bits(_PYTHON[type(op)](_evaluate(left, values), _evaluate(right, values)))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _FUNCTIONS[function][0](*(_evaluate(argument, values) for argument in arguments))
    raise AssertionError(ast.dump(tree))


def _in_64_bits(value: Any) -> Any:
    # A SymInt stands for many values; the binding checks the one of a call.
    if type(value) is int and not fits_64_bits(value):
        raise OverflowError
    return value


def _cpp(tree: ast.expr, names: Mapping[str, str]) -> str:
    match tree:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Constant(value=value):
            return f"int64_t{{{value!r}}}"
        case ast.UnaryOp(operand=operand):
            return f"subtract(0, {_cpp(operand, names)})"
        case ast.BinOp(left=left, op=op, right=right):
            return _CPP[type(op)].format(_cpp(left, names), _cpp(right, names))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return f"{_FUNCTIONS[function][1]}({', '.join(_cpp(argument, names) for argument in arguments)})"
    raise AssertionError(ast.dump(tree))


def _affine(tree: ast.expr, name: str) -> tuple[ast.expr | None, ast.expr | None] | None:  # noqa: PLR0911
    """Split into (scale, offset), each None for zero; None if the tree is not affine in `name`."""
    if name not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
        return None, tree
    match tree:
        case ast.Name():
            return ast.Constant(1), None
        case ast.UnaryOp(operand=operand):
            inner = _affine(operand, name)
            return inner and (_negated(inner[0]), _negated(inner[1]))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            first, second = _affine(left, name), _affine(right, name)
            if first is None or second is None:
                return None
            if isinstance(op, ast.Sub):
                second = (_negated(second[0]), _negated(second[1]))
            return _sum(first[0], second[0]), _sum(first[1], second[1])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _affine(left, name), _affine(right, name)
            if first is None or second is None or (first[0] is not None and second[0] is not None):
                return None
            (scale, offset), factor = (first, right) if first[0] is not None else (second, left)
            return _product(scale, factor), _product(offset, factor)
    return None


def _negated(tree: ast.expr | None) -> ast.expr | None:
    return None if tree is None else ast.UnaryOp(ast.USub(), tree)


def _sum(a: ast.expr | None, b: ast.expr | None) -> ast.expr | None:
    return b if a is None else a if b is None else ast.BinOp(a, ast.Add(), b)


def _product(a: ast.expr | None, b: ast.expr) -> ast.expr | None:
    if a is None or (isinstance(b, ast.Constant) and b.value == 1):
        return a
    return b if isinstance(a, ast.Constant) and a.value == 1 else ast.BinOp(a, ast.Mult(), b)
