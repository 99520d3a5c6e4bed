"""Runs a Start page of the documentation as a reader would: writes its files, and types its commands and sessions.

A block whose fence has a `title` is a file. In a `console` block each line behind `$ ` is a command, and what follows is
what it prints; a `pycon` block is a session of a new process. Both are compared as doctest does, where `...`
stands for any text.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "SESSION", "Block", "blocks", "commands", "compare", "needs_gpu", "run_page"]

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "start"
# In the order of reading: each page goes on with the files of those before it.
PAGES = ("install", "first-operator", "gradient", "cuda", "ship")

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# The program of a session; it reads the page's text as its argument.
SESSION = f"""
import doctest, sys
test = doctest.DocTestParser().get_doctest(sys.argv[1], {{}}, "session", None, 0)
assert test.examples
sys.exit(doctest.DocTestRunner(optionflags={_FLAGS}).run(test).failed > 0)
"""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is or an empty text, and what stands in it."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall((FOLDER / f"{page}.md").read_text(encoding="utf-8"))]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console block, each with what it prints."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def needs_gpu(text: str) -> bool:
    """Return whether a session or a command runs something on a GPU; a build does not."""
    return 'device="cuda"' in text or ("--device cuda" in text and not text.startswith("opsmith build"))


def compare(command: str, expected: str, printed: str) -> None:
    """Fail with both texts where a command has not printed what the page shows, if it shows anything."""
    checker = doctest.OutputChecker()
    if expected and not checker.check_output(expected, printed, _FLAGS):
        raise AssertionError(f"{command}\n" + checker.output_difference(doctest.Example("", expected), printed, _FLAGS))


def run_page(
    page: str, folder: Path, session: Callable[[str], None], console: Callable[[str, str], None] | None = None
) -> int:
    """Do what a page says in a folder, in order, and return how many sessions and commands have run.

    `session` and `console` run the two kinds of block; without `console` commands are passed over.
    """
    for earlier in PAGES[: PAGES.index(page)]:
        for block in filter(lambda block: block.title, blocks(earlier)):
            _write(folder, block)
    ran = 0
    for block in blocks(page):
        if block.title:
            _write(folder, block)
        elif block.language == "pycon":
            session(block.text)
            ran += 1
        elif block.language == "console" and console is not None:
            for command, printed in commands(block):
                console(command, printed)
                ran += 1
    return ran


def _write(folder: Path, block: Block) -> None:
    file = folder / block.title
    file.parent.mkdir(exist_ok=True)
    file.write_text(block.text, encoding="utf-8")
