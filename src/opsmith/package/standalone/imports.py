"""Makes a module's import statements lead to another copy of opsmith; all else in its text stays as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

__all__ = ["find_imports", "with_imports_of"]

_PACKAGE = "opsmith"
_FROM = re.compile(rb"from\s+(opsmith)\b")


def find_imports(source: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield what a source imports of opsmith: the line, the module, and the name that is taken from it, or nothing.

    Raises SyntaxError if the source is not Python.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names if _is_own(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_own(node.module):
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)


def with_imports_of(source: bytes, target: str) -> bytes:
    """Return a source that imports `target` wherever it imports opsmith; lines keep their numbers, and names their meaning.

    Raises SyntaxError if the source is not Python.
    """
    lines = source.splitlines(keepends=True)
    # From the end, so that the places of what comes before stay right.
    for line, start, end, words in sorted(_places(ast.parse(source), lines, target.encode()), reverse=True):
        lines[line] = lines[line][:start] + words + lines[line][end:]
    return b"".join(lines)


def _places(tree: ast.AST, lines: list[bytes], target: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield what to replace: the index of a line, from and up to which of its bytes, and by what."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_own(node.module):
            # `from` and the module may be on two lines, by a backslash; then the audit of the wheel says so.
            if (found := _FROM.match(lines[node.lineno - 1], node.col_offset)) is not None:
                yield node.lineno - 1, *found.span(1), target
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_own(alias.name) and alias.end_col_offset is not None:
                    yield alias.lineno - 1, alias.col_offset, alias.end_col_offset, _import_words(alias, target)


def _import_words(alias: ast.alias, target: bytes) -> bytes:
    module = target + alias.name.removeprefix(_PACKAGE).encode()
    if alias.asname is not None:
        return module + f" as {alias.asname}".encode()
    # `import opsmith.errors` binds the package, and imports the module too.
    package = target + b" as opsmith"
    return package if module == target else package + b", " + module + f" as _{alias.name.replace('.', '_')}".encode()


def _is_own(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] == _PACKAGE
