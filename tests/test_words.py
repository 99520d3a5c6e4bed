"""A module says in its first line what it does, as a statement."""

from __future__ import annotations

import ast
from pathlib import Path

import opsmith

SOURCE = Path(opsmith.__file__).parent
_QUESTIONS = ("How ", "What ", "Which ", "Who ", "Why ", "Where ", "When ", "Is ", "Are ", "Does ", "Do ", "Can ")


def test_every_module_opens_with_a_statement() -> None:
    lines = {
        str(path.relative_to(SOURCE)): (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        for path in SOURCE.rglob("*.py")
    }
    assert len(lines) > 400
    assert not {path: line for path, line in lines.items() if not line or "?" in line or line.startswith(_QUESTIONS)}
