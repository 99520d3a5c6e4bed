"""Parses the numbers of a launch: a dimension's arithmetic (`spec/dims.py`) and `cdiv(a, b)`, the quotient rounded up."""

from __future__ import annotations

import ast

from opsmith.errors import DefinitionError
from opsmith.spec.dims import Expression, parse_expression

__all__ = ["MOST_AXES", "parse_number", "split_sizes"]

MOST_AXES = 3
_EXAMPLES = {"grid": '"cdiv(M, BLOCK_M), B"', "block": '"BLOCK // 4, 4"', "shared": '"4 * BLOCK"'}


def split_sizes(where: str, name: str, given: object, most: int = MOST_AXES) -> tuple[str, ...]:
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
