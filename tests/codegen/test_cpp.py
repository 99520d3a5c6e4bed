"""Texts of a definition arrive in C++ as they are, and cannot end what they stand in."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from opsmith.codegen.cpp import comment, string_literal
from opsmith.spec.cpp_names import identifier


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_literal_holds_the_text(text: str) -> None:
    literal = string_literal(text)
    assert literal.isascii() and literal.isprintable()
    # Python reads quotes, backslashes and octal escapes of three digits as C++ does.
    assert ast.literal_eval(f"b{literal}").decode() == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_comment_is_one_line(text: str) -> None:
    line = comment(text)
    assert line.isprintable()
    assert not line.rstrip().endswith("\\")


def test_keywords_of_either_spelling() -> None:
    assert [identifier(name) for name in ("x", "new", "xor", "int", "int_")] == ["x", "new_", "xor_", "int_", "int_"]
