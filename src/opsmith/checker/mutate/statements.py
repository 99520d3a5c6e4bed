"""Finds the statements, calls and types of a body that can be left out or mistaken for others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from opsmith.checker.mutate.edit import Edit, ordinary
from opsmith.checker.mutate.functions import Body
from opsmith.checker.mutate.source import Source
from opsmith.checker.mutate.tokens import closing

__all__ = [
    "arguments",
    "atomics",
    "dropped",
    "dropped_calls",
    "extremes",
    "functions",
    "guards",
    "indices",
    "strides",
    "types",
]

_EXTREMES = {"min": "max", "fmin": "fmax", "fminf": "fmaxf", "atomicMin": "atomicMax", "min_element": "max_element"}
_EXTREMES |= {other: one for one, other in _EXTREMES.items()}
_ROUNDING = {
    "floor": "ceil",
    "ceil": "floor",
    "round": "floor",
    "trunc": "floor",
    "rint": "floor",
    "nearbyint": "floor",
}
# What a function of one argument, {0}, is taken for; {1} is its qualifier, such as `std::`.
_FUNCTIONS = {
    **dict.fromkeys(("abs", "fabs", "fabsf"), "({0})"),
    **dict.fromkeys(("log1p", "log1pf"), "{1}log(1 + ({0}))"),
    **dict.fromkeys(("expm1", "expm1f"), "({1}exp({0}) - 1)"),
    **dict.fromkeys(("exp", "expf"), "(1 + ({0}))"),
    **dict.fromkeys(("log", "logf"), "(({0}) - 1)"),
    **dict.fromkeys(("sqrt", "sqrtf", "cbrt"), "({0})"),
    "tanh": "(({1}exp(2 * ({0})) - 1) / ({1}exp(2 * ({0})) + 1))",
    "softplus": "{1}log(1 + {1}exp({0}))",
    **{name: f"{{1}}{other}({{0}})" for name, other in _ROUNDING.items()},
}
_NARROWER = {"double": "float", "int64_t": "int16_t", "ptrdiff_t": "int16_t"}


def guards(source: Source, body: Body) -> Iterator[Edit]:
    """The condition of an `if` is always true, or never."""
    for at in range(body.begin, body.end):
        if source.text_at(at) == "if" and source.text_at(at + 1) == "(":
            end = closing(source.tokens, at + 1, body.end)
            if not any(source.text_at(index) == ";" for index in range(at, end)):
                yield from (Edit(at + 2, end, text) for text in ("true", "false"))


def types(source: Source, body: Body) -> Iterator[Edit]:
    """A narrower type: `T` for `compute_t<T>`, float for double, int16_t for int64_t, and int32_t in offsets."""
    for at in range(body.begin, body.end):
        text = source.text_at(at)
        if at in source.without_result:
            continue
        if text == "compute_t" and at + 1 in source.angles:
            end = source.angles[at + 1]
            # Of `compute_t<Two<T>>` the last bracket is one token of two.
            yield Edit(at, end + 1, source.span(at + 2, end))
        elif text in _NARROWER and source.tokens[at].kind == "name":
            yield Edit(at, at + 1, _NARROWER[text])
            # 32 bits are too few for offsets alone, and only those are tried at such lengths.
            end = source.statement_end(at)
            if text != "double" and any(source.text_at(index) in ("stride", "strides") for index in range(at, end)):
                yield Edit(at, at + 1, "int32_t")


def extremes(source: Source, body: Body) -> Iterator[Edit]:
    """min and max exchanged."""
    for at in ordinary(source, body):
        if source.text_at(at) in _EXTREMES and (source.text_at(at + 1) == "(" or at + 1 in source.angles):
            yield Edit(at, at + 1, _EXTREMES[source.text_at(at)])


def dropped(source: Source, body: Body) -> Iterator[Edit]:
    """An assignment that is left out."""
    for statement in source.statements(body):
        if not statement.is_call:
            yield Edit(statement.begin, statement.end, "")


def dropped_calls(source: Source, body: Body) -> Iterator[Edit]:
    """A call that is left out."""
    for statement in source.statements(body):
        if statement.is_call and statement.begin not in source.without_result:
            yield Edit(statement.begin, statement.end, "")


def indices(source: Source, body: Body) -> Iterator[Edit]:
    """Two neighbouring indices of a view exchanged."""
    for at in ordinary(source, body):
        if source.text_at(at) in source.views and source.text_at(at + 1) == "(":
            arguments = source.arguments(at + 1)
            for (begin, end), (other, last) in pairwise(arguments):
                one, two = source.span(begin, end), source.span(other, last)
                if one != two:
                    yield Edit(begin, last, f"{two}, {one}")


def arguments(source: Source, body: Body) -> Iterator[Edit]:
    """Two neighbouring arguments of a call exchanged, both of them names."""
    for at in ordinary(source, body):
        token = source.tokens[at]
        if token.kind != "name" or token.text in source.views or token.text in _NOT_CALLED:
            continue
        opening = source.angles[at + 1] + 1 if at + 1 in source.angles else at + 1
        if source.text_at(opening) != "(" or source.tokens[at - 1].kind == "name":
            continue
        for (begin, end), (other, last) in pairwise(source.arguments(opening)):
            is_name = end == begin + 1 and last == other + 1
            if is_name and {source.tokens[begin].kind, source.tokens[other].kind} == {"name"}:
                one, two = source.text_at(begin), source.text_at(other)
                if one != two:
                    yield Edit(begin, last, f"{two}, {one}")


_NOT_CALLED = frozenset({"if", "for", "while", "switch", "return", "min", "max", "fmin", "fmax"})


def functions(source: Source, body: Body) -> Iterator[Edit]:
    """A function of mathematics done naively, or left out: log1p(x) as log(1 + x), |x| as x."""
    for at in ordinary(source, body):
        template = _FUNCTIONS.get(source.text_at(at))
        if template is None or source.text_at(at + 1) != "(" or source.text_at(at - 1) in (".", "->"):
            continue
        arguments = source.arguments(at + 1)
        if len(arguments) == 1:
            begin = at
            while source.text_at(begin - 1) == "::":
                begin -= 2 if source.tokens[begin - 2].kind == "name" else 1
            end = closing(source.tokens, at + 1) + 1
            yield Edit(begin, end, template.format(source.span(*arguments[0]), source.span(begin, at)))


def strides(source: Source, body: Body) -> Iterator[Edit]:
    """A stride taken for 1, or for the size."""
    for at in ordinary(source, body):
        if source.text_at(at) not in ("stride", "strides") or source.text_at(at - 1) not in (".", "->"):
            continue
        if source.text_at(at + 1) not in ("[", "(") or source.tokens[at - 2].kind != "name":
            continue
        end = closing(source.tokens, at + 1) + 1
        yield Edit(at - 2, end, "1")
        yield Edit(at, at + 1, source.text_at(at).replace("stride", "size"))


_ATOMIC_ADDS = frozenset({"atomicAdd", "atomic_add", "gpuAtomicAdd", "fastAtomicAdd", "__atomic_fetch_add"})


def atomics(source: Source, body: Body) -> Iterator[Edit]:
    """An atomic addition that is a plain one."""
    for at in range(body.begin, body.end):
        token = source.tokens[at]
        if token.kind == "directive" and re.match(r"#\s*pragma\s+omp\s+(atomic|critical)\b", token.text):
            yield Edit(at, at + 1, "")
        elif token.text in _ATOMIC_ADDS and source.text_at(at + 1) == "(":
            arguments = source.arguments(at + 1)
            end = closing(source.tokens, at + 1) + 1
            if len(arguments) >= 2 and source.text_at(end) == ";":
                yield Edit(at, end, f"*({source.span(*arguments[0])}) += {source.span(*arguments[1])}")
