"""Lists the kinds of mutation: each a fault that people make, and a function that finds where it can be made.

A function yields edits of one body: the tokens to replace, and the text that replaces them. What does not compile, or gives
the same machine code, is sorted out by building it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from opsmith.checker.mutate.functions import Body
from opsmith.checker.mutate.source import Source
from opsmith.checker.mutate.tokens import CLOSERS, OPENERS, closing

__all__ = ["KINDS", "Edit", "MutationKind"]


@dataclass(frozen=True)
class Edit:
    """A replacement of the tokens from `begin` to before `end`."""

    begin: int
    end: int
    after: str


@dataclass(frozen=True)
class MutationKind:
    """A kind of mutation, as the report calls it, and what it is."""

    name: str
    title: str
    find: Callable[[Source, Body], Iterator[Edit]]


_RELATIONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
_ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
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
_BEFORE_UNARY = frozenset({"return", "case", "else", "co_return"})
_NUMBER = re.compile(r"(0[xX][\da-fA-F']+|[\d'.]+(?:[eE][+-]?\d+)?)(\w*)$")


def _bounds(source: Source, body: Body) -> Iterator[Edit]:
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


def _comparisons(source: Source, body: Body) -> Iterator[Edit]:
    """A comparison outside of loops' heads: `<` becomes `<=` and `>=`, `==` becomes `!=`."""
    for at in _ordinary(source, body):
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


def _arithmetic(source: Source, body: Body) -> Iterator[Edit]:
    """`+` and `-`, `*` and `/` exchanged, with an assignment or without."""
    for at in _ordinary(source, body):
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


def _signs(source: Source, body: Body) -> Iterator[Edit]:
    """A minus or a `!` left out, `++` and `--` exchanged."""
    for at in _ordinary(source, body):
        text = source.text_at(at)
        if text == "!" or (text == "-" and not _is_binary(source, at)):
            yield Edit(at, at + 1, "")
        elif text in ("++", "--") and at not in source.in_loop_heads:
            yield Edit(at, at + 1, "--" if text == "++" else "++")


def _logic(source: Source, body: Body) -> Iterator[Edit]:
    """`&&` and `||` exchanged."""
    for at in _ordinary(source, body):
        text = source.text_at(at)
        if text in ("&&", "||") and source.text_at(at - 1) not in ("auto", "T", "F", ">", "const"):
            yield Edit(at, at + 1, "||" if text == "&&" else "&&")


def _constants(source: Source, body: Body) -> Iterator[Edit]:
    """A whole number is one more, another one is larger by one percent; true and false are exchanged."""
    for at in _ordinary(source, body):
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


def _guards(source: Source, body: Body) -> Iterator[Edit]:
    """The condition of an `if` is always true, or never."""
    for at in range(body.begin, body.end):
        if source.text_at(at) == "if" and source.text_at(at + 1) == "(":
            end = closing(source.tokens, at + 1, body.end)
            if not any(source.text_at(index) == ";" for index in range(at, end)):
                yield from (Edit(at + 2, end, text) for text in ("true", "false"))


def _types(source: Source, body: Body) -> Iterator[Edit]:
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


def _extremes(source: Source, body: Body) -> Iterator[Edit]:
    """min and max exchanged."""
    for at in _ordinary(source, body):
        if source.text_at(at) in _EXTREMES and (source.text_at(at + 1) == "(" or at + 1 in source.angles):
            yield Edit(at, at + 1, _EXTREMES[source.text_at(at)])


def _dropped(source: Source, body: Body) -> Iterator[Edit]:
    """An assignment that is left out."""
    for statement in source.statements(body):
        if not statement.is_call:
            yield Edit(statement.begin, statement.end, "")


def _dropped_calls(source: Source, body: Body) -> Iterator[Edit]:
    """A call that is left out."""
    for statement in source.statements(body):
        if statement.is_call and statement.begin not in source.without_result:
            yield Edit(statement.begin, statement.end, "")


def _indices(source: Source, body: Body) -> Iterator[Edit]:
    """Two neighbouring indices of a view exchanged."""
    for at in _ordinary(source, body):
        if source.text_at(at) in source.views and source.text_at(at + 1) == "(":
            arguments = source.arguments(at + 1)
            for (begin, end), (other, last) in pairwise(arguments):
                one, two = source.span(begin, end), source.span(other, last)
                if one != two:
                    yield Edit(begin, last, f"{two}, {one}")


def _arguments(source: Source, body: Body) -> Iterator[Edit]:
    """Two neighbouring arguments of a call exchanged, both of them names."""
    for at in _ordinary(source, body):
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


def _functions(source: Source, body: Body) -> Iterator[Edit]:
    """A function of mathematics done naively, or left out: log1p(x) as log(1 + x), |x| as x."""
    for at in _ordinary(source, body):
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


def _strides(source: Source, body: Body) -> Iterator[Edit]:
    """A stride taken for 1, or for the size."""
    for at in _ordinary(source, body):
        if source.text_at(at) not in ("stride", "strides") or source.text_at(at - 1) not in (".", "->"):
            continue
        if source.text_at(at + 1) not in ("[", "(") or source.tokens[at - 2].kind != "name":
            continue
        end = closing(source.tokens, at + 1) + 1
        yield Edit(at - 2, end, "1")
        yield Edit(at, at + 1, source.text_at(at).replace("stride", "size"))


_ATOMIC_ADDS = frozenset({"atomicAdd", "atomic_add", "gpuAtomicAdd", "fastAtomicAdd", "__atomic_fetch_add"})


def _atomics(source: Source, body: Body) -> Iterator[Edit]:
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


def _ordinary(source: Source, body: Body) -> Iterator[int]:
    """Yield the tokens of a body that decide results: no template's arguments, and not `Source.without_result`."""
    for at in range(body.begin, body.end):
        if at not in source.in_templates and at not in source.without_result and source.tokens[at].kind != "directive":
            yield at


KINDS: tuple[MutationKind, ...] = (
    MutationKind("bound", "a loop starts or ends one step off", _bounds),
    MutationKind("comparison", "another comparison: < for <=, >= for <, != for ==", _comparisons),
    MutationKind("arithmetic", "- for +, / for *", _arithmetic),
    MutationKind("sign", "a minus or a ! left out, -- for ++", _signs),
    MutationKind("logic", "|| for &&", _logic),
    MutationKind("constant", "a whole number one more, another one larger by 1 %", _constants),
    MutationKind("guard", "the condition of an if always true, or never", _guards),
    MutationKind("type", "T for compute_t<T>, float for double, int16_t for int64_t, int32_t in offsets", _types),
    MutationKind("extreme", "min for max", _extremes),
    MutationKind("assignment", "an assignment left out", _dropped),
    MutationKind("call", "a call left out", _dropped_calls),
    MutationKind("index", "two indices of a view exchanged", _indices),
    MutationKind("argument", "two arguments of a call exchanged", _arguments),
    MutationKind("function", "log(1 + x) for log1p(x), x for |x|", _functions),
    MutationKind("stride", "a stride taken for 1 or for the size", _strides),
    MutationKind("atomic", "an atomic addition that is a plain one", _atomics),
)
