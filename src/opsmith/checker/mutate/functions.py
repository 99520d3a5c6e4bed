"""Finds the bodies of functions in C++ text, and which of them a kernel calls.

A body is known by its function's name and, for a member, the struct around it. Whether one calls another is a question
of names: a body calls every function, and uses every struct, whose name stands in it. That finds too many at times, and
then an operator's mutants include some of a neighbour's helpers; it never finds too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opsmith.checker.mutate.tokens import CLOSERS, OPENERS, Token, closing, template_spans

__all__ = ["Body", "bodies_of", "reached_from"]

_STRUCTS = frozenset({"struct", "class", "union", "enum"})
# Names before a parenthesis that is not the list of parameters.
_NOT_A_FUNCTION = frozenset(
    {"alignas", "decltype", "noexcept", "requires", "sizeof", "__attribute__", "__launch_bounds__", "__declspec"}
)


@dataclass(frozen=True)
class Body:
    """A function's body: tokens from `begin` to before `end`, without the braces around.

    The initialisers of a constructor are part of it. `around` are the structs that it is a member of; `head` is the index
    of the first token of its declaration.
    """

    name: str
    around: tuple[str, ...]
    head: int
    begin: int
    end: int


def bodies_of(tokens: Sequence[Token]) -> list[Body]:
    """Return the bodies of all functions of a file, in order."""
    found: list[Body] = []
    _scan(tokens, template_spans(tokens), 0, len(tokens), (), found)
    return found


def _scan(
    tokens: Sequence[Token], angles: Mapping[int, int], at: int, end: int, around: tuple[str, ...], found: list[Body]
) -> None:
    """Add the bodies between two tokens that are in a namespace or a struct."""
    head = at
    while at < end:
        token = tokens[at]
        if token.kind == "directive" or token.text in (";", "}"):
            head = at + 1
        elif token.text in ("(", "["):
            at = closing(tokens, at, end)
        elif at in angles:
            at = angles[at]
        elif _begins_initialisers(tokens, at) and (name := _function_name(tokens, angles, head, at)):
            # A constructor: `: a(b), c{d} {`
            opening = _body_after_initialisers(tokens, at, end)
            close = closing(tokens, opening, end)
            found.append(Body(name, around, head, at + 1, close))
            at, head = close, close + 1
        elif token.text == "{":
            close = closing(tokens, at, end)
            inside = _scope(tokens, angles, head, at)
            if inside is not None:
                _scan(tokens, angles, at + 1, close, (*around, *inside), found)
                head = close + 1
            elif (name := _function_name(tokens, angles, head, at)) is not None:
                found.append(Body(name, around, head, at + 1, close))
                head = close + 1
            at = close
        at += 1


def _begins_initialisers(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].text == ":" and at > 0 and tokens[at - 1].text in (")", "noexcept")


def _top_level(tokens: Sequence[Token], angles: Mapping[int, int], begin: int, end: int) -> Iterable[int]:
    """Yield the indices of a head's tokens that are in no bracket; an opening one is itself among them."""
    index = begin
    while index < end:
        yield index
        if index in angles:
            index = angles[index]
        elif tokens[index].kind == "mark" and tokens[index].text in OPENERS:
            index = closing(tokens, index, end)
        index += 1


def _scope(tokens: Sequence[Token], angles: Mapping[int, int], head: int, brace: int) -> tuple[str, ...] | None:
    """Return the struct that a brace opens, () for a namespace, or None for anything else."""
    top = list(_top_level(tokens, angles, head, brace))
    words = [tokens[index].text for index in top]
    if "namespace" in words or (words[:1] == ["extern"] and len(words) == 2):
        return ()
    if "(" in words and not any(word in ("alignas", "__attribute__", "__align__") for word in words):
        return None
    kind = next((place for place, word in enumerate(words) if word in _STRUCTS), None)
    if kind is None or "=" in words:
        return None
    names = []
    for index in top[kind + 1 :]:
        if tokens[index].text == ":":
            break
        if tokens[index].kind == "name" and tokens[index].text not in ("final", "alignas"):
            names.append(tokens[index].text)
    return (names[-1],) if names else ("",)


def _function_name(tokens: Sequence[Token], angles: Mapping[int, int], head: int, at: int) -> str | None:
    """Return the name of the function whose declaration ends at an index, or None if none does."""
    last = ""
    for index in _top_level(tokens, angles, head, at):
        token = tokens[index]
        if token.text == "=" and last != "operator":
            # `const auto f = [](...) {` is a function of that name; what else is set equal is none.
            return last if any(tokens[i].text == "[" for i in range(index, min(index + 2, at))) else None
        if token.text == "(" and last not in _NOT_A_FUNCTION and last:
            return last
        if token.kind == "name":
            last = token.text
        elif last == "operator" and token.text == "(":
            return "operator()"
    return None


def _body_after_initialisers(tokens: Sequence[Token], at: int, end: int) -> int:
    """Return the index of the brace that opens a constructor's body, from the colon before its initialisers."""
    index = at + 1
    while index < end:
        text = tokens[index].text
        if text == "{" and not (tokens[index - 1].kind == "name" or tokens[index - 1].text == ">"):
            return index
        if text in OPENERS:
            index = closing(tokens, index, end)
        elif text in CLOSERS or text == ";":
            break
        index += 1
    return min(index, end - 1)


def reached_from(
    entries: Iterable[str],
    files: Mapping[str, tuple[Sequence[Token], Sequence[Body]]],
    ignored: Mapping[str, frozenset[int]],
) -> set[tuple[str, int]]:
    """Return the bodies that functions of some names call, directly or through others, as (file, index of its body).

    What is called at a token that is `ignored` in its file does not count.
    """
    by_name: dict[str, list[tuple[str, int]]] = {}
    for file, (_, bodies) in files.items():
        for index, body in enumerate(bodies):
            # An operator is called by the name of its struct.
            for name in {body.name, *body.around} - {"operator"}:
                by_name.setdefault(name, []).append((file, index))
    reached: set[tuple[str, int]] = set()
    waiting = [place for entry in entries for place in by_name.get(entry, ())]
    while waiting:
        place = waiting.pop()
        if place in reached:
            continue
        reached.add(place)
        tokens, bodies = files[place[0]]
        body = bodies[place[1]]
        # The head as well: a struct that is a parameter's type, or a template's argument, has functions that are called.
        skipped = ignored[place[0]]
        names = {
            tokens[at].text for at in range(body.head, body.end) if tokens[at].kind == "name" and at not in skipped
        }
        waiting += [other for name in names for other in by_name.get(name, ())]
    return reached
