"""Reads what compilers print: their errors, where each stands, and what they note about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from opsmith.codegen.instantiate import SIGNATURE_MARK

__all__ = ["FILE", "Message", "find_messages"]

# The name of a file, at the beginning of a line.
FILE = rf"(?P<file>{SIGNATURE_MARK}\w+|[^\s:(][^:(\n]*?)"
# gcc and clang: file:line:column: error: text. nvcc: file(line): error #number: text.
_DIAGNOSTIC = re.compile(
    rf"^{FILE}(?::(?P<line>\d+)(?::(?P<column>\d+))?|\((?P<nvline>\d+)\)): "
    r"(?P<kind>catastrophic error|fatal error|error|warning|remark|note)(?: #[\w-]+)?: +(?P<text>.*)$",
    re.MULTILINE,
)
# How an error was reached, and headings of the notes that follow: no news about its cause.
_ROUTE = re.compile(
    r"requested here|required from|in expansion of macro|expanded from macro|argument deduction/substitution failed"
)


@dataclass(frozen=True)
class Message:
    """An error or a note of a compiler: where it stands, what it says, and the notes that belong to it.

    A fatal error ends the compilation. It is about a file that is missing or cannot be written, not about the code.
    """

    file: str
    line: int
    column: int | None
    text: str
    is_fatal: bool = False
    notes: tuple[Message, ...] = ()


def find_messages(output: str) -> tuple[Message, ...]:
    """Return the errors in a compiler's output with their notes, in order, each once."""
    found: dict[tuple[str, int, int | None, str], Message] = {}
    notes: list[Message] = []
    latest: Message | None = None

    def finish() -> None:
        if latest is not None:
            key = (latest.file, latest.line, latest.column, latest.text)
            found.setdefault(key, Message(*key, latest.is_fatal, tuple(dict.fromkeys(notes))))

    for match, below in _diagnostics(output):
        message = _message(match)
        if match["kind"] == "note":
            if not _ROUTE.search(message.text):
                notes.append(message)
            continue
        finish()
        latest = message if match["kind"].endswith("error") else None
        notes = [Message(message.file, message.line, None, text) for text in _continued(below)]
    finish()
    return tuple(found.values())


def _diagnostics(output: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield every message of a compiler with the text up to the next one."""
    matches = [*_DIAGNOSTIC.finditer(output), None]
    for match, following in pairwise(matches):
        assert match is not None
        yield match, output[match.end() : following.start() if following else len(output)]


def _message(match: re.Match[str]) -> Message:
    column = int(match["column"]) if match["column"] else None
    is_fatal = match["kind"] in ("fatal error", "catastrophic error")
    return Message(match["file"], int(match["line"] or match["nvline"]), column, match["text"], is_fatal)


def _continued(below: str) -> Iterator[str]:
    """Yield the lines in which nvcc goes on with a message: they are indented around the source line and its caret."""
    lines = below.removeprefix("\n").splitlines()
    lines = lines[: next((number for number, line in enumerate(lines) if not line.startswith("  ")), len(lines))]
    caret = next((number for number, line in enumerate(lines) if line.strip() == "^"), None)
    if caret is not None:
        for line in lines[: max(caret - 1, 0)] + lines[caret + 1 :]:
            yield line.strip()
