"""Splits C++ and CUDA text into tokens, and tells the angle brackets of templates from comparisons.

There is no parser of C++ here. What is taken for a template by mistake is not mutated, and what is taken for a comparison
makes a mutant that does not compile; neither changes a result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["CLOSERS", "OPENERS", "Kind", "Token", "closing", "template_spans", "tokenize"]

Kind = Literal["name", "number", "text", "mark", "directive"]

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}

# A `>` is a token of its own, also in `>>`: two templates may end there. In `>=` and `->` it is not.
_MARKS = (
    r"<<<|>>>(?=\s*\()|<=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^="
    r"|<<|\.\*|##|."
)
_TOKEN = re.compile(
    r"(?P<skip>\s+|\\\n|//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r'|(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)")'
    r'|(?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)"
    rf"|(?P<mark>{_MARKS})",
    re.DOTALL,
)
# A line that begins with #, with the lines that a backslash joins to it. A comment in it may hide its end, and is rare.
_DIRECTIVE = re.compile(r"#(?:\\\n|[^\n])*")

# These are followed by a template's arguments, whatever is between.
_ALWAYS = frozenset({"template", "static_cast", "const_cast", "reinterpret_cast", "dynamic_cast"})
# No argument of a template has these outside of parentheses.
_NEVER_INSIDE = frozenset({";", "{", "}", "&&", "||", "?", "=", "+=", "-=", "*=", "/=", "return", "<<", "==", "!="})


@dataclass(frozen=True)
class Token:
    """A token: `start` is the index of its first character, `line` its number from 1. A directive is one token."""

    kind: Kind
    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """The index behind its last character."""
        return self.start + len(self.text)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a source, without blanks and comments."""
    tokens: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        if text[at] == "#" and not text[text.rfind("\n", 0, at) + 1 : at].strip():
            found = _DIRECTIVE.match(text, at)
            kind = "directive"
        else:
            found = _TOKEN.match(text, at)
            kind = "text" if found is not None and found["raw"] is not None else str(found and found.lastgroup)
        assert found is not None  # the last mark is any character
        if kind != "skip":
            tokens.append(Token(kind, found[0], at, line))  # type: ignore[arg-type]
        line += found[0].count("\n")
        at = found.end()
    return tokens


def closing(tokens: Sequence[Token], at: int, end: int | None = None) -> int:
    """Return the index of the bracket that closes the one at an index, or `end` if there is none before it."""
    end = len(tokens) if end is None else end
    depth = 0
    for index in range(at, end):
        if tokens[index].kind == "mark":
            depth += (tokens[index].text in OPENERS) - (tokens[index].text in CLOSERS)
            if depth == 0:
                return index
    return end


def template_spans(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of each `<` that opens a template's arguments, with that of the `>` that closes them."""
    found: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token.kind == "mark" and token.text == "<" and index > 0 and tokens[index - 1].kind == "name":
            end = _template_end(tokens, index)
            if end is not None:
                found[index] = end
    return found


def _template_end(tokens: Sequence[Token], at: int) -> int | None:
    """Return the index of the `>` that closes the `<` at an index, or None if that is a comparison."""
    before = tokens[at - 1]
    is_spaced = before.end < tokens[at].start
    if is_spaced and before.text not in _ALWAYS:
        return None
    depth, index = 0, at
    while index < len(tokens):
        token = tokens[index]
        if token.kind in ("mark", "name") and token.text in _NEVER_INSIDE and before.text != "template":
            return None
        if token.kind == "mark":
            if token.text == "<":
                depth += 1
            elif token.text == ">":
                depth -= 1
                if depth == 0:
                    return index
            elif token.text == ">>>":  # three templates end
                depth -= 3
                if depth <= 0:
                    return index
            elif token.text in OPENERS:
                index = closing(tokens, index)
            elif token.text in CLOSERS or token.text == ";":
                return None
        index += 1
    return None
