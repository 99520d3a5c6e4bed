"""Reads opsmith's headers: the comment and the signature of everything public in them.

It relies on how they are written and formatted. A declaration begins in the first column, with its comment directly above
it; a body that is longer than a line ends with a brace in the first column; what is not public is in `namespace detail` or
below `private:`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

__all__ = ["Declaration", "Header", "grouped", "read_header"]

_NAMESPACE = re.compile(r"(inline )?namespace ([\w:]+) \{$")
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]\s*|__attribute__\(\(.*?\)\)\s*|alignas\([^{;]*?\)(?= \w+ \{)\s*|extern \"C\" ")
_TEMPLATE = re.compile(r"^template <(?:[^<>]|<[^<>]*>)*>\s*")
_NAMES = (
    re.compile(r"^(?:struct|class) (\w+)"),
    re.compile(r"^using (\w+) ="),
    re.compile(r"^using [\w:]*::(\w+);"),
    re.compile(r"^(?:inline |static )*constexpr [\w:]+ (\w+)(?: =|\{)"),
    re.compile(r"(\w+|operator\S+)\("),
)


@dataclass(frozen=True)
class Declaration:
    """A name, with its namespace below `opsmith`, the comment above it, and what is declared, without bodies."""

    name: str
    comment: str
    code: str


@dataclass(frozen=True)
class Header:
    """The comment that a header opens with, and its public declarations in order."""

    comment: str
    declarations: tuple[Declaration, ...]


def read_header(text: str) -> Header:
    """Return what is public in a header."""
    lines = text.splitlines()
    opening = []
    for line in lines:
        if not line.startswith("//"):
            break
        opening.append(_bare(line))
    return Header("\n".join(opening), tuple(_declarations(lines[len(opening) :])))


def _declarations(lines: list[str]) -> Iterator[Declaration]:
    spaces: list[str] = []
    for comment, code in _pieces(lines):
        if found := _NAMESPACE.match(code):
            spaces.append(found[2])
        elif code.startswith("}"):
            spaces.pop()
        elif spaces and not {"detail", "binding"} & set(spaces) and (name := _name(code)):
            inner = "::".join(space.removeprefix("opsmith").removeprefix("::") for space in spaces).strip(":")
            yield Declaration(f"{inner}::{name}" if inner else name, comment, _without_bodies(code))


def _pieces(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each declaration with its comment, and the lines that open and close namespaces."""
    comment: list[str] = []
    code: list[str] = []
    continues = False
    for line in lines:
        if continues or line.startswith("#"):
            continues = line.endswith("\\")
            if not code:
                comment = []
        elif not code and line.startswith("//"):
            comment.append(_bare(line))
        elif not code and not line:
            comment = []
        else:
            code.append(line)
            text = "\n".join(code)
            ends = text.rstrip().endswith((";", "}")) or re.search(r"[;}]\s*// [^\n]*$", text) is not None
            if _NAMESPACE.match(line) or line.startswith("}  //") or (ends and text.count("{") == text.count("}")):
                yield "\n".join(comment), text
                comment, code = [], []


def _bare(line: str) -> str:
    return line.strip().removeprefix("//").removeprefix(" ")


def _name(code: str) -> str | None:
    """Return what a piece of code declares; None for a deduction guide or another thing without a name."""
    plain = _ATTRIBUTE.sub("", _TEMPLATE.sub("", code)).replace("OPSMITH_HOST_DEVICE ", "")
    if re.match(r"\w+\([^)]*\) ->", plain):
        return None
    for pattern in _NAMES:
        if found := pattern.search(plain) if pattern is _NAMES[-1] else pattern.match(plain):
            return found[1]
    return None


def _without_bodies(code: str) -> str:
    """Return a declaration as one would write it in a summary: types with their members, functions without bodies."""
    code = code.replace("__attribute__((noinline)) ", "")
    head, brace, body = code.partition("{")
    plain = _ATTRIBUTE.sub("", _TEMPLATE.sub("", code))
    if re.match(r"(struct|class) ", plain) and brace:
        members = body.rpartition("}")[0].split("private:")[0]
        return f"{head.rstrip()} {{\n{''.join(_members(members))}}};".replace("{\n};", "{};")
    if not brace or re.match(r"(inline |static )*(constexpr|using) [\w:]+ \w+( =|\{)", plain):
        return code
    return re.split(r"(?<=\)) : ", head.rstrip(), maxsplit=1)[0] + ";"


def _members(body: str) -> Iterator[str]:
    for comment, code in _pieces(textwrap.dedent(re.sub(r"^ ?public:\n", "", body, flags=re.MULTILINE)).splitlines()):
        if code.startswith("static_assert") or code.rstrip().endswith(("= delete;", "= default;")):
            continue
        lines = [f"// {line}".rstrip() for line in comment.splitlines()] + _without_bodies(code).splitlines()
        yield textwrap.indent("\n".join(lines), "  ") + "\n"


def grouped(declarations: tuple[Declaration, ...]) -> Iterator[list[Declaration]]:
    """Yield what has one name, overloads and the versions for CPU and GPU; one without a comment joins the one before."""
    by_name: dict[str, list[Declaration]] = {}
    for item in declarations:
        known = by_name.setdefault(item.name, [])
        if any(item.code in other.code for other in known):
            continue
        if known and not item.comment:
            known[-1] = replace(known[-1], code=f"{known[-1].code}\n{item.code}")
        else:
            known.append(item)
    yield from by_name.values()
