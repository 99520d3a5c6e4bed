"""Reads a kernel's source for mutation: its tokens, its functions, and what stands where in their bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from opsmith.checker.mutate.functions import Body, bodies_of
from opsmith.checker.mutate.tokens import CLOSERS, OPENERS, closing, template_spans, tokenize

__all__ = ["ASSIGNMENTS", "Loop", "Source", "Statement"]

ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<="})

# What a faulty argument of these changes is not a result: how work is shared out, what is checked when it is compiled or
# said when it fails, how much memory is taken in advance.
_WITHOUT_RESULT = frozenset(
    {"static_assert", "assert", "alignas", "noexcept", "decltype", "sizeof", "reserve", "throw", "fail"}
    | {"__builtin_prefetch", "prefetch", "__builtin_expect"}
)
# parallel_for's third argument is how many items one thread had better do alone.
_GRAIN = {"parallel_for": 2}
_HEADS = frozenset({"if", "for", "while", "switch"})
_NO_STATEMENTS = frozenset(
    {"return", "if", "for", "while", "break", "continue", "using", "const", "constexpr", "auto", "static", "typename"}
    | {"template", "case", "default", "throw", "goto", "delete", "struct", "class", "enum", "union", "switch", "do"}
    | {"else", "try", "catch", "alignas", "namespace", "typedef", "public", "private", "protected"}
)


@dataclass(frozen=True)
class Loop:
    """The head of a `for`: the indices of its first token, of both semicolons, and of the closing parenthesis."""

    begin: int
    first: int
    second: int
    end: int


@dataclass(frozen=True)
class Statement:
    """An assignment or a call that is a statement: tokens from `begin` to its semicolon, at `end`."""

    begin: int
    end: int
    is_call: bool


class Source:
    """A file of kernels. All indices are of its tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.angles = template_spans(self.tokens)
        self.bodies: list[Body] = bodies_of(self.tokens)

    @cached_property
    def in_templates(self) -> frozenset[int]:
        """The tokens between the angle brackets of templates, and those brackets."""
        return frozenset(index for begin, end in self.angles.items() for index in range(begin, end + 1))

    @cached_property
    def without_result(self) -> frozenset[int]:
        """The tokens that decide no result (see `_WITHOUT_RESULT`), and those of what is known when it is compiled."""
        found: set[int] = set()
        for index, token in enumerate(self.tokens):
            if token.text in _WITHOUT_RESULT:
                end = self.statement_end(index) if token.text == "throw" else self.call_end(index)
                found.update(range(index, end + 1))
            elif token.text in _GRAIN and self.text_at(index + 1) == "(":
                arguments = self.arguments(index + 1)
                if len(arguments) > _GRAIN[token.text]:
                    found.update(range(*arguments[_GRAIN[token.text]]))
            elif token.text == "[" and self.text_at(index + 1) == "[":
                found.update(range(index, closing(self.tokens, index) + 1))
        return frozenset(self._with_variables(found))

    def _with_variables(self, found: set[int]) -> set[int]:
        """Add the initialisers of variables that are used for such things alone; one may be used for another's."""
        for _ in range(3):
            for body in self.bodies:
                places: dict[str, list[int]] = {}
                for at in range(body.begin, body.end):
                    if self.tokens[at].kind == "name":
                        places.setdefault(self.tokens[at].text, []).append(at)
                for first, *uses in places.values():
                    declares = self.text_at(first + 1) == "=" and (
                        self.tokens[first - 1].kind == "name" or self.text_at(first - 1) in (",", ">")
                    )
                    if declares and uses and found.issuperset(uses):
                        end = self.statement_end(first)
                        comma = (at for at in self.top_level(first, end) if self.text_at(at) == ",")
                        found.update(range(first, next(comma, end)))
        return found

    @cached_property
    def views(self) -> frozenset[str]:
        """The names of parameters and variables that are declared as views."""
        found = set()
        for index, token in enumerate(self.tokens):
            if token.text == "View" and index + 1 in self.angles:
                at = self.angles[index + 1] + 1
                while self.text_at(at) in ("&", "const", "__restrict__"):
                    at += 1
                if at < len(self.tokens) and self.tokens[at].kind == "name":
                    found.add(self.tokens[at].text)
        return frozenset(found)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The heads of all loops with two semicolons."""
        found = []
        for index, token in enumerate(self.tokens):
            if token.text == "for" and self.text_at(index + 1) == "(":
                end = closing(self.tokens, index + 1)
                semicolons = [at for at in self.top_level(index + 2, end) if self.tokens[at].text == ";"]
                if len(semicolons) == 2:
                    found.append(Loop(index + 2, semicolons[0], semicolons[1], end))
        return tuple(found)

    @cached_property
    def in_loop_heads(self) -> frozenset[int]:
        """The tokens of the heads of `for` loops."""
        return frozenset(index for loop in self.loops for index in range(loop.begin, loop.end))

    def statements(self, body: Body) -> Iterator[Statement]:
        """Yield the assignments and calls of a body that could be left out: no declaration, and no block in it."""
        is_start = True
        index = body.begin
        while index < body.end:
            token = self.tokens[index]
            if token.text in _HEADS and self.text_at(index + 1) in ("(", "constexpr"):
                index = closing(self.tokens, index + (1 if self.text_at(index + 1) == "(" else 2), body.end) + 1
                is_start = True
                continue
            if is_start and token.kind != "directive" and (found := self._statement(index, body.end)) is not None:
                yield found
            is_start = token.kind == "directive" or token.text in (";", "{", "}", "else", "do")
            index += 1

    def _statement(self, begin: int, limit: int) -> Statement | None:
        if self.tokens[begin].text in _NO_STATEMENTS or self.tokens[begin].text in (";", "{", "}"):
            return None
        end = self.statement_end(begin)
        if end >= limit or any(self.tokens[index].text == ";" for index in range(begin, end)):
            return None  # a block is in it: that of a lambda
        top = list(self.top_level(begin, end))
        sign = next((at for at in top if self.tokens[at].text in ASSIGNMENTS), None)
        left = [at for at in top if sign is None or at < sign]
        if sign is None and self.tokens[end - 1].text != ")":
            return None
        return None if self._declares(left) else Statement(begin, end, is_call=sign is None)

    def _declares(self, left: Sequence[int]) -> bool:
        """Whether tokens before an assignment's sign, or of a call, declare a variable: a name behind its type."""
        for place, at in enumerate(left[1:], 1):
            before = self.tokens[left[place - 1]]
            if self.tokens[at].kind == "name" and (before.kind == "name" or (place > 1 and before.text in ("*", "&"))):
                return True
            if self.tokens[at].kind == "name" and left[place - 1] in self.angles:
                return True
        return False

    def text_at(self, index: int) -> str:
        """Return a token's text, or "" behind the last."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def span(self, begin: int, end: int) -> str:
        """Return the text from a token to before another."""
        return self.text[self.tokens[begin].start : self.tokens[end - 1].end] if end > begin else ""

    def top_level(self, begin: int, end: int) -> Iterator[int]:
        """Yield the indices of tokens that are in no bracket and no template's arguments; openers are among them."""
        index = begin
        while index < end:
            yield index
            if index in self.angles:
                index = self.angles[index]
            elif self.tokens[index].kind == "mark" and self.tokens[index].text in OPENERS:
                index = closing(self.tokens, index, end)
            index += 1

    def statement_end(self, begin: int) -> int:
        """Return the index of the semicolon that ends the statement which begins at a token."""
        for index in self.top_level(begin, len(self.tokens)):
            if self.tokens[index].text == ";" or self.tokens[index].text in CLOSERS:
                return index
        return len(self.tokens) - 1

    def call_end(self, name: int) -> int:
        """Return the index of the parenthesis that ends the call of the function named at a token, else its own."""
        at = name + 1
        if at in self.angles:
            at = self.angles[at] + 1
        return closing(self.tokens, at) if self.text_at(at) == "(" else name

    def arguments(self, opening: int) -> list[tuple[int, int]]:
        """Return the arguments in parentheses, each as the index of its first token and the one behind its last."""
        end = closing(self.tokens, opening)
        found, begin = [], opening + 1
        for index in self.top_level(opening + 1, end):
            if self.tokens[index].text == ",":
                found.append((begin, index))
                begin = index + 1
        return [*found, (begin, end)] if end > opening + 1 else []
