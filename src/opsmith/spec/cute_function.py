"""Reads the declaration of a `@cute.jit` function from its file, which is parsed and not imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["CuteFunction", "CuteParameter", "find_cute_function"]


@dataclass(frozen=True)
class CuteParameter:
    """One parameter: its name, and its annotation without the module and what stands in brackets: "Tensor", "Int64"."""

    name: str
    type: str
    text: str  # the annotation as it is written; empty where there is none


@dataclass(frozen=True)
class CuteFunction:
    """A host function of CuTe DSL as its file has it."""

    name: str
    line: int
    parameters: tuple[CuteParameter, ...]
    is_jit: bool
    keyword_only: frozenset[str] = frozenset()

    @property
    def declaration(self) -> str:
        """The function's first line, without its body."""
        words = [f"{each.name}: {each.text}" if each.text else each.name for each in self.parameters]
        return f"def {self.name}({', '.join(words)})"


def find_cute_function(source: str, name: str) -> CuteFunction | None:
    """Return the function of a name in a file's text, or None if there is none. Raises SyntaxError."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            decorators = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
            is_jit = any(each in ("jit", "cute.jit", "cutlass.cute.jit") for each in decorators)
            keyword_only = frozenset(each.arg for each in node.args.kwonlyargs)
            return CuteFunction(name, node.lineno, tuple(map(_parameter, arguments)), is_jit, keyword_only)
    return None


def _parameter(argument: ast.arg) -> CuteParameter:
    if argument.annotation is None:
        return CuteParameter(argument.arg, "", "")
    return CuteParameter(argument.arg, _base(argument.annotation), ast.unparse(argument.annotation))


def _base(annotation: ast.expr) -> str:
    """Return the last name of an annotation: of `cutlass.Constexpr[int]`, `Optional[cute.Tensor]`, `cute.Tensor | None`."""
    match annotation:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(value=value, slice=inner):
            outer = _base(value)
            return _base(inner) if outer == "Optional" else outer
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _base(left)
        case ast.Constant(value=str(text)):
            try:
                return _base(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return ""
    return ""
