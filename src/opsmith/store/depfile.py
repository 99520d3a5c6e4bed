"""Reads which files a compiler read, from the Make rules of `g++ -MD` and `nvcc -MD`, and writes such a rule.

Make's quoting is odd and worth a table:

    \\<newline>          the rule goes on in the next line
    2N+1 \\, then blank  N backslashes and a blank that belongs to the name
    2N \\, then blank    N backslashes; the blank ends the name
    \\# and \\:           # and :
    $$                  $
    any other \\         itself
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["depfile_text", "parse_depfile", "read_depfile"]

_CONTINUATION = re.compile(r"\\\r?\n")
_PIECE = re.compile(
    r"""
      (?P<slashes>\\*)(?P<blank>[ \t\r])   # the end of a name, or a blank inside it
    | \\(?P<quoted>[\#:])
    | (?P<dollar>\$\$)
    | (?P<colon>:)(?=[ \t\r]|$)            # a colon inside a name does not separate
    | (?P<plain>[^\\$:\ \t\r]+|.)
    """,
    re.VERBOSE,
)


def read_depfile(path: Path, *, cwd: Path, skip: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Return the files that a dependency file names, as `parse_depfile`. Raises OSError if it cannot be read."""
    return parse_depfile(path.read_text(encoding="utf-8", errors="surrogateescape"), cwd=cwd, skip=skip)


def parse_depfile(text: str, *, cwd: Path, skip: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Return the prerequisites of every rule, each once and in order; relative ones are taken from `cwd`.

    Names that begin with one of `skip` are left out before a path is made of them: a file of torch's has 1,500 of those.
    `..` and links stay as they are: the compiler opened the file under this very name, and so must a reader that looks
    whether it changed.
    """
    names = (name for rule in _CONTINUATION.sub(" ", text).split("\n") for name in _prerequisites(rule))
    kept = (name for name in dict.fromkeys(names) if not name.startswith(skip))
    return tuple(dict.fromkeys(cwd / name for name in kept))


def depfile_text(target: str, prerequisites: Iterable[Path]) -> str:
    """Return the rule that `parse_depfile` reads back as these prerequisites, which must be absolute."""
    return " \\\n ".join([f"{_quoted(target)}:", *(_quoted(str(path)) for path in prerequisites)]) + " \n"


def _quoted(name: str) -> str:
    quoted = re.sub(r"(\\*)([ \t])", r"\1\1\\\2", re.sub(r"([#:])", r"\\\1", name.replace("$", "$$")))
    ending = len(quoted) - len(quoted.rstrip("\\"))
    return quoted + "\\" * ending


def _prerequisites(rule: str) -> Iterator[str]:
    name = ""
    is_target = True
    for piece in _PIECE.finditer(rule):
        if blank := piece["blank"]:
            slashes = len(piece["slashes"])
            name += "\\" * (slashes // 2)
            if slashes % 2:
                name += blank
                continue
        elif not (piece["colon"] and is_target):
            name += piece["quoted"] or ("$" if piece["dollar"] else piece[0])
            continue
        if name and not is_target:
            yield name
        name = ""
        is_target = is_target and not piece["colon"]
    if name and not is_target:
        yield name
