"""Describes how a kernel is launched: the grid and the configurations, as the definition writes them.

    grid="cdiv(M, BLOCK_M), B"         up to three sizes of the grid, over the sizes of a call and the constants
    configs=[{"BLOCK_M": 64, "num_warps": 4, "when": "M <= 4096"}, {"BLOCK_M": 128, "num_warps": 8}]

Expressions are a dimension's arithmetic (`spec/dims.py`) and `cdiv(a, b)`, the quotient rounded up. The binding evaluates
them in C++; the interpreter on the CPU evaluates them in Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from opsmith.errors import DefinitionError
from opsmith.spec.dims import Expression, parse_expression

__all__ = [
    "Condition",
    "Config",
    "Constant",
    "Launch",
    "parse_constants",
    "parse_launch",
    "parse_number",
    "split_sizes",
]

# What a kernel may have as a compile-time constant.
Constant = int | float | bool | str

# Options of Triton's compiler that a configuration may set; each is an int.
_OPTIONS = ("num_warps", "num_stages", "maxnreg")
_WHEN = "when"
_MOST_AXES = 3
_EXAMPLES = {"grid": '"cdiv(M, BLOCK_M), B"', "block": '"BLOCK // 4, 4"', "shared": '"4 * BLOCK"'}

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


@dataclass(frozen=True)
class Config:
    """One way to compile a kernel: its constants by name, options of Triton's compiler, and when it may be chosen."""

    constants: tuple[tuple[str, Constant], ...] = ()
    options: tuple[tuple[str, int], ...] = ()
    when: Condition | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The constants that expressions may use: the ints."""
        return {name: value for name, value in self.constants if type(value) is int}

    @property
    def identity(self) -> tuple[object, ...]:
        """What a kernel is compiled for. 1, True and 1.0 are equal in Python, and not to a compiler."""
        return tuple((name, repr(value)) for name, value in self.constants), self.options

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether the configuration may be taken for some sizes: its condition may have its constants too."""
        return self.when is None or self.when.holds({**values, **self.numbers})


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched. The first configuration whose condition holds is taken."""

    grid: tuple[str, ...]
    configs: tuple[Config, ...]

    @cached_property
    def axes(self) -> tuple[Expression, ...]:
        """The sizes of the grid, one to three; none where a host function computes it."""
        return tuple(parse_number(text, "grid") for text in self.grid)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is computed for a launch."""
        return self.axes

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of the constants, which every configuration has."""
        return tuple(name for name, _ in self.configs[0].constants)

    @cached_property
    def compiled(self) -> tuple[Config, ...]:
        """What is compiled: the configurations without their conditions, each once."""
        return tuple({config.identity: replace(config, when=None) for config in self.configs}.values())

    def place(self, config: Config) -> int:
        """Return where a configuration is among those that are compiled."""
        return [one.identity for one in self.compiled].index(config.identity)

    def choose(self, values: Mapping[str, int]) -> Config | None:
        """Return the configuration for a call's sizes, or None if none may be taken."""
        return next((config for config in self.configs if config.holds(values)), None)

    def size(self, config: Config, values: Mapping[str, int]) -> tuple[int, int, int]:
        """Return the grid of a call in a configuration."""
        sizes = [axis.evaluate({**values, **config.numbers}) for axis in self.axes]
        x, y, z = [*sizes, 1, 1][:_MOST_AXES]
        return x, y, z


def parse_launch(
    where: str,
    grid: object,
    configs: Sequence[Mapping[str, Any]] | None,
    shared: Mapping[str, Any],
    *,
    options: tuple[str, ...] = _OPTIONS,
) -> Launch:
    """Return a launch as `opsmith.triton` takes it; `shared` is what every configuration has.

    `options` are the names that are the compiler's, and no constants.

    Raises DefinitionError, which names `where`, for what is not one.
    """
    parsed = _parse_configs(where, configs, shared, options)
    texts = split_sizes(where, "grid", grid)
    for text in texts:
        parse_number(text, f"{where}: grid")
    return Launch(texts, parsed)


def parse_constants(where: str, configs: Sequence[Mapping[str, Any]] | None, constants: Mapping[str, Any]) -> Launch:
    """Return a launch as `opsmith.cute` takes it: constants alone, because a function of the kernel's computes the rest.

    Raises DefinitionError, which names `where`, for what is not one.
    """
    return Launch((), _parse_configs(where, configs, constants, ()))


def _parse_configs(
    where: str, configs: Sequence[Mapping[str, Any]] | None, shared: Mapping[str, Any], options: tuple[str, ...]
) -> tuple[Config, ...]:
    if configs is not None and (isinstance(configs, (str, Mapping)) or not configs):
        raise DefinitionError(
            f'{where}: configs= is a list of configurations, such as [{{"BLOCK": 1024, "num_warps": 4}}]'
        )
    parsed = tuple(_parse_config(where, {**shared, **config}, options) for config in configs or [{}])
    names = {frozenset(name for name, _ in config.constants) for config in parsed}
    if len(names) > 1:
        first, other = sorted(names, key=sorted)[:2]
        raise DefinitionError(
            f"{where}: the configurations have different constants: {', '.join(sorted(first ^ other))} is not in all of them"
        )
    for index, config in enumerate(parsed[:-1]):
        if config.when is None and len(parsed) > 1:
            raise DefinitionError(
                f"{where}: the configuration {index} has no condition, so those after it are never taken. Give it one: "
                '{..., "when": "N <= 1024"}'
            )
    return parsed


def split_sizes(where: str, name: str, given: object, most: int = _MOST_AXES) -> tuple[str, ...]:
    """Return the sizes of a grid or a block, each as it is written."""
    if isinstance(given, str):
        try:
            tree = ast.parse(given, mode="eval").body
        except (SyntaxError, ValueError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error
            raise DefinitionError(f"{where}: {name}={given!r} is not an expression ({reason})") from None
        parts = [ast.unparse(part) for part in tree.elts] if isinstance(tree, ast.Tuple) else [given]
    elif isinstance(given, (list, tuple)):
        parts = [str(part) for part in given]
    elif isinstance(given, int) and not isinstance(given, bool):
        parts = [str(given)]
    else:
        raise DefinitionError(
            f"{where}: {name}= is text over the sizes of a call and the kernel's constants, such as "
            f"{_EXAMPLES[name]}; found {type(given).__name__}. opsmith computes it in C++, so it cannot be a function"
        )
    if not 1 <= len(parts) <= most:
        wanted = "it is one number" if most == 1 else f"a {name} has one to three"
        raise DefinitionError(f"{where}: {name}= has {len(parts)} sizes; {wanted}")
    return tuple(parts)


def _parse_config(where: str, given: Mapping[str, Any], option_names: tuple[str, ...]) -> Config:
    constants = {name: value for name, value in given.items() if name not in (*option_names, _WHEN)}
    for name, value in constants.items():
        if not isinstance(value, (int, float, bool, str)):
            raise DefinitionError(
                f"{where}: the constant {name} is {value!r:.60}; a kernel's constants are ints, floats, bools and texts. "
                "Several values are several configurations: configs=[{...}, {...}]"
            )
        if name in ("num_ctas", "grid"):
            raise DefinitionError(f"{where}: {name} cannot be part of a configuration")
    options = {name: given[name] for name in option_names if given.get(name) is not None}
    for name, value in options.items():
        if type(value) is not int or value < 1:
            raise DefinitionError(f"{where}: {name} is {value!r:.60}, expected a positive int")
    when = given.get(_WHEN)
    condition = None if when is None else _parse_condition(where, when)
    return Config(tuple(sorted(constants.items())), tuple(sorted(options.items())), condition)


def parse_number(text: str, where: str) -> Expression:
    """Parse one size of the grid or one side of a comparison, where cdiv may be called."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return parse_expression(text, where=where)  # whose words say what is wrong
    plain = ast.unparse(ast.fix_missing_locations(_Cdiv().visit(tree)))
    try:
        return Expression(text, parse_expression(plain, where=where).tree)
    except DefinitionError:
        raise DefinitionError(
            f"{where}: {text!r} cannot be computed in C++; it may have names, integers, + - * // %, cdiv(a, b), min(a, b), "
            "max(a, b) and parentheses"
        ) from None


class _Cdiv(ast.NodeTransformer):
    """Writes cdiv(a, b) as -(-a // b), which is the quotient rounded up."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function == "cdiv" and len(node.args) == 2 and not node.keywords:
            negated = ast.UnaryOp(ast.USub(), node.args[0])
            return ast.UnaryOp(ast.USub(), ast.BinOp(negated, ast.FloorDiv(), node.args[1]))
        return node


def _parse_condition(where: str, text: object) -> Condition:
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
