"""Parses operator schemas such as "ns::name.overload(Tensor(a!) x, int n=3, *, bool flag=False) -> Tensor".

The grammar is that of PyTorch's aten/src/ATen/native/README.md. PyTorch's own parser needs an import of torch, of the
version at hand, and a wheel is judged without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Argument", "Schema", "parse_schema"]

_HEAD = re.compile(r"\s*(?:([A-Za-z_]\w*)::)?([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\s*\(")
_ARGUMENT = re.compile(r"(?P<type>.*?[\s\])?>])\s*(?P<name>[A-Za-z_]\w*)\s*(?:=\s*(?P<default>.*))?", re.DOTALL)
_ALIAS = re.compile(r"\(\s*([a-z*][\w|]*\s*!?|!)\s*(?:->\s*([a-z*|\s]+))?\s*\)")
# The types that schemas are made of; what else has an arrow in it, such as a C++ lambda in a message, is not a schema.
_TYPES = re.compile(
    r"(?:(?:Tensor|Scalar|ScalarType|int|SymInt|float|SymFloat|bool|SymBool|str|string|complex|number|Device|Layout|"
    r"MemoryFormat|Generator|Dimname|DimVector|Stream|Storage|ConstQuantizerPtr|QScheme|Any|t\d*|NoneType|Function|"
    r"DeviceObjType|AnyEnumType|__torch__\.[\w.]+|Dict|Future|RRef|Await|Optional|List|Tuple)(?=$|[\[?(])|\(|\.\.\.$)"
    r"[\w.\[\]?(),]*"
)


@dataclass(frozen=True)
class Argument:
    """A parameter or a result. `is_mutated` is the mark `!` of an alias annotation; `default` is None if there is none."""

    name: str
    type: str
    default: str | None = None
    is_mutated: bool = False
    is_keyword_only: bool = False

    def __str__(self) -> str:
        default = "" if self.default is None else f"={self.default}"
        kind = self.type.replace("Tensor", "Tensor(!)", 1) if self.is_mutated else self.type
        return f"{kind} {self.name}{default}".strip()


@dataclass(frozen=True)
class Schema:
    """What callers of an operator rely on. `namespace` is empty where the library does not say it."""

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    text: str

    @property
    def qualified(self) -> str:
        """The name with the namespace, as far as it is known, and the overload."""
        front = f"{self.namespace}::" if self.namespace else ""
        return f"{front}{self.name}" + (f".{self.overload}" if self.overload else "")

    def __str__(self) -> str:
        return self.text


def parse_schema(text: str) -> Schema | None:
    """Return the schema that a text is, or None if it is another text."""
    head = _HEAD.match(text)
    if head is None:
        return None
    end = _closing(text, head.end() - 1)
    if end is None:
        return None
    arrow = re.match(r"\s*->\s*", text[end + 1 :])
    if arrow is None:
        return None
    results = text[end + 1 + arrow.end() :].strip()
    arguments = _arguments(text[head.end() : end])
    returns = _returns(results)
    if arguments is None or returns is None:
        return None
    return Schema(head[1] or "", head[2], head[3] or "", arguments, returns, " ".join(text.split()))


def _arguments(text: str) -> tuple[Argument, ...] | None:
    parsed = []
    is_keyword_only = False
    for part in _split(text):
        if part == "*":
            is_keyword_only = True
            continue
        if part == "...":
            parsed.append(Argument("...", "..."))
            continue
        argument = _argument(part, is_keyword_only)
        if argument is None:
            return None
        parsed.append(argument)
    return tuple(parsed)


def _argument(text: str, is_keyword_only: bool) -> Argument | None:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        return None
    kind, is_mutated = _type(match["type"])
    if kind is None:
        return None
    default = None if match["default"] is None else match["default"].strip()
    return Argument(match["name"], kind, default, is_mutated, is_keyword_only)


def _returns(text: str) -> tuple[Argument, ...] | None:
    is_tuple = text.startswith("(") and _closing(text, 0) == len(text) - 1
    parts = _split(text[1:-1]) if is_tuple else [text]
    results = []
    for part in parts:
        named = _argument(part, False) if re.search(r"[\])?\w]\s+[A-Za-z_]\w*$", part) else None
        kind, is_mutated = _type(part)
        if named is not None:
            results.append(named)
        elif kind is not None:
            results.append(Argument("", kind, None, is_mutated))
        else:
            return None
    return tuple(results)


def _type(text: str) -> tuple[str | None, bool]:
    """Return a type without its alias annotation, and whether that says that it is written to."""
    text = text.strip()
    is_mutated = any("!" in match[1] for match in _ALIAS.finditer(text))
    kind = re.sub(r"\s+", "", _ALIAS.sub("", text))
    return (kind, is_mutated) if _TYPES.fullmatch(kind) else (None, False)


def _unquoted(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """Yield the place of each character outside of quotes, the character, and how many brackets are open behind it."""
    depth, quote = 0, ""
    for place in range(start, len(text)):
        char = text[place]
        if quote:
            quote = "" if char == quote else quote
            continue
        if char in "'\"":
            quote = char
            continue
        depth += (char in "([") - (char in ")]")
        yield place, char, depth


def _closing(text: str, start: int) -> int | None:
    """Return where the bracket at `start` is closed; brackets in quotes do not count."""
    return next((place for place, char, depth in _unquoted(text, start) if char in ")]" and depth == 0), None)


def _split(text: str) -> list[str]:
    """Return the parts between commas outside of brackets and quotes."""
    commas = [place for place, char, depth in _unquoted(text) if char == "," and depth == 0]
    parts = [text[begin + 1 : end].strip() for begin, end in pairwise([-1, *commas, len(text)])]
    return parts if commas or parts[0] else []
