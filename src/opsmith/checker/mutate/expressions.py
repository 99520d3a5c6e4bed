"""Finds the operators and numbers of a body that can be mistaken for others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opsmith.checker.mutate.edit import Edit, ordinary
from opsmith.checker.mutate.functions import Body
from opsmith.checker.mutate.source import Source
from opsmith.checker.mutate.tokens import CLOSERS, OPENERS

__all__ = ["arithmetic", "bounds", "comparisons", "constants", "logic", "signs"]

_RELATIONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
_ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
_BEFORE_UNARY = frozenset({"return", "case", "else", "co_return"})
_NUMBER = re.compile(r"(0[xX][\da-fA-F']+|[\d'.]+(?:[eE][+-]?\d+)?)(\w*)$")


def bounds(source: Source, body: Body) -> Iterator[Edit]:
    """The condition of a loop: `i < n` becomes `i <= n` and `i < n - 1`; its start becomes one more."""
    for loop in source.loops:
        if not body.begin <= loop.begin < body.end:
            continue
        init = [at for at in source.top_level(loop.begin, loop.first) if source.text_at(at) == "="]
        if len(init) == 1 and init[0] + 1 < loop.first:
            yield from _one_more(source, init[0] + 1, _until_comma(source, init[0] + 1, loop.first), "+")
        relations = [at for at in source.top_level(loop.first + 1, loop.second) if _is_relation(source, at)]
        for at in relations:
            yield Edit(at, at + 1, _RELATIONS[source.text_at(at)][0])
        if len(relations) == 1:
            yield from _one_more(source, relations[0] + 1, loop.second, "-")


def _until_comma(source: Source, begin: int, end: int) -> int:
    return next((at for at in source.top_level(begin, end) if source.text_at(at) == ","), end)


def _one_more(source: Source, begin: int, end: int, sign: str) -> Iterator[Edit]:
    text = source.span(begin, end)
    if text.isdigit():
        yield Edit(begin, end, str(int(text) + (1 if sign == "+" else -1)))
    elif any(source.text_at(at) in ("&&", "||", "?") for at in range(begin, end)):
        return
    else:
        yield Edit(begin, end, f"{text} {sign} 1" if end == begin + 1 else f"({text}) {sign} 1")


def comparisons(source: Source, body: Body) -> Iterator[Edit]:
    """A comparison outside of loops' heads: `<` becomes `<=` and `>=`, `==` becomes `!=`."""
    for at in ordinary(source, body):
        if _is_relation(source, at) and at not in source.in_loop_heads:
            others = _RELATIONS[source.text_at(at)]
            # Of two equal numbers either is the larger one.
            others = others[1:] if len(others) > 1 and _selects_operand(source, at) else others
            yield from (Edit(at, at + 1, other) for other in others)


_BEFORE_OPERAND = frozenset({"(", "[", "{", ",", "=", "return", "?", ":", ";", "&&", "||", "}"})
_BEHIND_CHOICE = frozenset({")", "]", "}", ",", ";", ":"})


def _selects_operand(source: Source, at: int) -> bool:
    """Whether a comparison chooses between the numbers that it compares, as in `a < b ? a : b`."""
    begin = at
    depth = 0
    while begin > 0:
        text = source.text_at(begin - 1)
        depth += (text in CLOSERS) - (text in OPENERS)
        if depth < 0 or (depth == 0 and text in _BEFORE_OPERAND):
            break
        begin -= 1
    marks: list[int] = []
    for index in source.top_level(at + 1, len(source.tokens)):
        text = source.text_at(index)
        if text == "?" or (marks and text == ":" and len(marks) == 1):
            marks.append(index)
        elif text in _BEHIND_CHOICE:
            marks.append(index)
            break
    if len(marks) != 3 or source.text_at(marks[0]) != "?":
        return False
    question, colon, end = marks
    compared = {source.span(begin, at), source.span(at + 1, question)}
    return compared == {source.span(question + 1, colon), source.span(colon + 1, end)}


def _is_relation(source: Source, at: int) -> bool:
    token = source.tokens[at]
    if token.kind != "mark" or token.text not in _RELATIONS or at in source.in_templates:
        return False
    if token.text == ">" and ">" in (source.text_at(at - 1), source.text_at(at + 1)):
        return False  # a shift
    return source.text_at(at - 1) != "operator"


def arithmetic(source: Source, body: Body) -> Iterator[Edit]:
    """`+` and `-`, `*` and `/` exchanged, with an assignment or without."""
    for at in ordinary(source, body):
        text = source.text_at(at)
        is_sign = text in _ARITHMETIC and source.tokens[at].kind == "mark"
        # A loop that counts backwards does not end, which costs time and shows nothing.
        if is_sign and (at not in source.in_loop_heads if len(text) == 2 else _is_binary(source, at)):
            yield Edit(at, at + 1, _ARITHMETIC[text])


def _is_binary(source: Source, at: int) -> bool:
    before, sign, after = source.tokens[at - 1], source.tokens[at], source.tokens[at + 1]
    if before.kind not in ("name", "number") and before.text not in (")", "]"):
        return False
    if before.text in _BEFORE_UNARY or source.text_at(at - 1) == "operator":
        return False
    # `T* x` declares a pointer; a product has blanks on both sides, or on none.
    return sign.text not in ("*", "/") or (before.end < sign.start) == (sign.end < after.start)


def signs(source: Source, body: Body) -> Iterator[Edit]:
    """A minus or a `!` left out, `++` and `--` exchanged."""
    for at in ordinary(source, body):
        text = source.text_at(at)
        if text == "!" or (text == "-" and not _is_binary(source, at)):
            yield Edit(at, at + 1, "")
        elif text in ("++", "--") and at not in source.in_loop_heads:
            yield Edit(at, at + 1, "--" if text == "++" else "++")


def logic(source: Source, body: Body) -> Iterator[Edit]:
    """`&&` and `||` exchanged."""
    for at in ordinary(source, body):
        text = source.text_at(at)
        if text in ("&&", "||") and source.text_at(at - 1) not in ("auto", "T", "F", ">", "const"):
            yield Edit(at, at + 1, "||" if text == "&&" else "&&")


def constants(source: Source, body: Body) -> Iterator[Edit]:
    """A whole number is one more, another one is larger by one percent; true and false are exchanged."""
    for at in ordinary(source, body):
        token = source.tokens[at]
        if token.text in ("true", "false"):
            yield Edit(at, at + 1, "false" if token.text == "true" else "true")
        elif token.kind == "number" and (changed := _other_number(token.text)) is not None:
            yield Edit(at, at + 1, changed)


def _other_number(text: str) -> str | None:
    found = _NUMBER.match(text)
    if found is None:
        return None
    digits, suffix = found[1].replace("'", ""), found[2]
    if digits[:2].lower() == "0x":
        return f"{hex(int(digits, 16) + 1)}{suffix}"
    if digits.isdigit():
        # With a leading 0 it is octal, and rare.
        return None if digits != "0" and digits.startswith("0") else f"{int(digits) + 1}{suffix}"
    return f"{float(digits) * 1.01 or 1.0!r}{suffix}"
