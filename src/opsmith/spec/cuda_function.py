"""Reads the declaration of a `__global__` function from a CUDA file: its template parameters, and its parameters.

The text is read, not compiled: a definition knows its kernel's arguments where there is no compiler. What is read is
held against what the compiler sees when it compiles the kernel (codegen/cuda_variants.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["CudaFunction", "CudaParameter", "find_cuda_function"]

# Comments and texts, which may hold anything.
_BLANKED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.DOTALL)
_WORD = re.compile(r"\s*(?P<word>\w+)")
# What may stand between a template's head and its `__global__`.
_SPECIFIERS = re.compile(r"(?:\s|\b(?:static|inline|extern)\b)*")
# Words of a parameter that are no part of the type that a caller sees.
_QUALIFIERS = frozenset({"__restrict__", "__restrict", "__grid_constant__"})
_NAMESPACE = re.compile(r"(?:(?<![\w:])|(?<=[\s<,(]))(?:::\s*)?(?:opsmith|std)\s*::\s*")
_OPENING, _CLOSING = "(<[{", ")>]}"


@dataclass(frozen=True)
class CudaParameter:
    """A parameter of a function or a template.

    `type` is without qualifiers, and without the namespaces `std` and `opsmith`: "const T*", "int64_t", "class".
    """

    name: str
    type: str


@dataclass(frozen=True)
class CudaFunction:
    """A `__global__` function in a file; `head` and `list` are its template's head and its parameters as written."""

    name: str
    line: int
    template: tuple[CudaParameter, ...]
    parameters: tuple[CudaParameter, ...]
    head: str
    list: str

    @property
    def declaration(self) -> str:
        """The function's declaration on one line."""
        return f"{self.head} __global__ void {self.name}({self.list})".strip()


def find_cuda_function(source: str, name: str) -> CudaFunction | None:
    """Return the `__global__` function of a name, which may have namespaces before it, in a file's text; or None."""
    text = _BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    short = name.rpartition("::")[2]
    for found in re.finditer(r"\b__global__\b", text):
        opening = _opening_of(text, found.end(), short)
        if opening is not None and (closing := _closing(text, opening)) is not None:
            head = _template_before(text, found.start())
            words = text[opening + 1 : closing]
            return CudaFunction(
                short,
                text.count("\n", 0, text.rfind(short, 0, opening)) + 1,
                tuple(map(_parameter, _split(head[head.find("<") + 1 : -1]))),
                tuple(map(_parameter, _split(words))),
                " ".join(head.split()),
                ", ".join(" ".join(each.partition("=")[0].split()) for each in _split(words)),
            )
    return None


def _opening_of(text: str, at: int, name: str) -> int | None:
    """Return where a function's parameters open, if what follows its `__global__` declares one of that name."""
    while True:
        while (attribute := re.compile(r"\s*\[\[").match(text, at)) is not None:
            end = text.find("]]", attribute.end())
            if end < 0:
                return None
            at = end + 2
        word = _WORD.match(text, at)
        if word is None:
            return None
        at = word.end()
        opening = re.compile(r"\s*\(").match(text, at)
        if opening is not None:
            if word["word"] == name:
                return opening.end() - 1
            closing = _closing(text, opening.end() - 1)
            # __launch_bounds__(256) and its like.
            if not word["word"].startswith("__") or closing is None:
                return None
            at = closing + 1


def _template_before(text: str, end: int) -> str:
    """Return the template's head that belongs to what begins at `end`, "template <class T>", or nothing."""
    for found in re.finditer(r"\btemplate\s*<", text[:end]):
        closing = _closing(text, found.end() - 1)
        if closing is not None and closing < end and _SPECIFIERS.fullmatch(text, closing + 1, end):
            return text[found.start() : closing + 1]
    return ""


def _closing(text: str, opening: int) -> int | None:
    """Return where a bracket closes; None if it does not."""
    return next((at for at, depth in _depths(text, opening) if depth == 0), None)


def _split(text: str) -> Iterator[str]:
    """Yield what commas separate outside of brackets."""
    begin = 0
    for at, depth in _depths(text, 0):
        if text[at] == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    if text[begin:].strip():
        yield text[begin:]


def _depths(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield each place of a text from one on, and in how many brackets it is; a closing bracket is outside of its own."""
    open_brackets: list[str] = []
    for at in range(begin, len(text)):
        character = text[at]
        # In brackets of another kind < and > are comparisons.
        is_angle = character in "<>"
        if not is_angle or not open_brackets or open_brackets[-1] == "<":
            if character in _OPENING:
                open_brackets.append(character)
            elif character in _CLOSING and open_brackets:
                open_brackets.pop()
        yield at, len(open_brackets)


def _parameter(text: str) -> CudaParameter:
    declared = _NAMESPACE.sub("", text.partition("=")[0])
    tokens = [token for token in re.findall(r"\w+|::|\S", declared) if token not in _QUALIFIERS]
    name = tokens.pop() if tokens and re.fullmatch(r"[^\W\d]\w*", tokens[-1]) and len(tokens) > 1 else ""
    if tokens in (["class"], ["typename"]):
        return CudaParameter(name, "class")
    return CudaParameter(name, _type(tokens))


def _type(tokens: list[str]) -> str:
    if tokens.count("*") == 1:
        at = tokens.index("*")
        pointee = _joined(token for token in tokens[:at] if token != "const")
        # A pointer that is constant itself is the same to a caller.
        if set(tokens[at + 1 :]) <= {"const"}:
            return f"{'const ' if 'const' in tokens[:at] else ''}{pointee}*"
    return _joined(token for token in tokens if token != "const")


def _joined(tokens: Iterator[str]) -> str:
    """Return a type's words with blanks between words alone: "long long", "compute_t<T>"."""
    return re.sub(r"(?<=\W) | (?=\W)", "", " ".join(tokens))
