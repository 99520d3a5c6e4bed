"""Tells whether torch's whole header can mend the errors of a source that was compiled with the slim one.

To compile it again takes ten seconds and more, to preprocess it two. A name that no header declares is the user's mistake,
and is told at once. Whatever is in doubt counts as mendable.
"""

from __future__ import annotations

import re
import subprocess
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from opsmith._subprocess import run
from opsmith.build.fast.slim import may_lack_headers
from opsmith.build.messages import Message
from opsmith.build.plan import Step

__all__ = ["may_be_mended"]

_QUOTED = r"[‘'\"](?:[\w:]*::)?(?P<name>\w+)(?:<[^’'\"]*>)?[’'\"]"
# What gcc, clang and nvcc say of a name that they do not know.
_UNKNOWN_NAME = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^{_QUOTED} (?:was not declared|has not been declared|is not a member|does not name a type|in namespace)",
        rf"has no member (?:named )?{_QUOTED}",
        rf"no (?:member|type|template) named {_QUOTED}",
        rf"(?:undeclared identifier|unknown type name|identifier) {_QUOTED}",
    )
)
_NO_FILE = re.compile(r"No such file|file not found|cannot open source file")
# Of types without a namespace torch's headers say nothing.
_NO_FIT = re.compile(r"no match(?:ing)? |no operator|no suitable|no viable|cannot convert|could not convert")

# A file's part of what is preprocessed; the flag 3 marks those that are found by -isystem, and the system's own.
_PART = re.compile(r'^# \d+ "[^"\n]*"(?P<flags>[ \d]*)\n(?P<text>(?:(?!# \d+ ").*\n)*)', re.MULTILINE)

# What stands before a name that is declared: a word such as `class`, or the type of a function or variable.
_INTRODUCED = re.compile(r"\b(?:class|struct|enum|union|namespace|concept|using|typedef)\b[^;{}=]*$|#\s*define\s+$")
_LAST_TOKEN = re.compile(r"(\w+|->|[^\w\s])\s*$")
_END_OF_TYPE = re.compile(r"(?!(?:return|co_return|throw|new|delete|else|case|goto)$)\w+|[>&*\])}]")
_CONTEXT = 200  # characters before a name
_PREPROCESS_S = 60.0


def may_be_mended(messages: tuple[Message, ...], step: Step, folder: Path) -> bool:
    """Tell whether any of the errors of a step may come from what the slim header leaves out.

    `step` is the step with the whole header, `folder` the build folder.
    """
    if not messages:
        return True
    headers = _Headers(step, folder)
    return any(_may_be_mended(message, headers) for message in messages if may_lack_headers((message,)))


def _may_be_mended(message: Message, headers: _Headers) -> bool:
    if _NO_FILE.search(message.text):
        return headers.have_included(message.file)
    for pattern in _UNKNOWN_NAME:
        if (match := pattern.search(message.text)) is not None:
            return headers.declare(match["name"])
    return not (_NO_FIT.search(message.text) and "::" not in message.text)


class _Headers:
    """What a step reads of headers that are not the user's: those of torch, the toolkits and the system."""

    def __init__(self, step: Step, folder: Path) -> None:
        self._step, self._folder = step, folder

    def have_included(self, file: str) -> bool:
        """Tell whether a file that a compiler names is one of them."""
        argv = self._step.argv
        folders = [value for word, value in pairwise(argv) if word == "-isystem"]
        return any(Path(file).is_relative_to(folder) for folder in (*folders, "/usr"))

    def declare(self, name: str) -> bool:
        """Tell whether they declare a name in any namespace, or may."""
        text = self._text
        return text is None or any(_is_declared(text, m.start(), name) for m in re.finditer(rf"\b{name}\b", text))

    @cached_property
    def _text(self) -> str | None:
        """Their text as the compiler reads it, with their macros; None if it cannot be had."""
        argv = list(self._step.argv)
        made = self._folder / f"{self._step.output}.ii"
        try:
            argv[argv.index("-c")] = "-E"
            argv[argv.index("-o") + 1] = made.name
            at = argv.index("-MD")
            argv[at : at + 3] = ["-Xcompiler=-dD" if "-Xcompiler=-fPIC" in ",".join(argv) else "-dD"]
            if run(argv, cwd=self._folder, timeout_s=_PREPROCESS_S).status != 0:
                return None
            text = made.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
        return "".join(part["text"] for part in _PART.finditer(text) if "3" in part["flags"].split())


def _is_declared(text: str, start: int, name: str) -> bool:
    """Tell whether a name may be declared where it stands: as a class, macro, alias, function or variable.

    Names of parameters and local variables, which every header is full of, are not.
    """
    line = text.rfind("\n", 0, start) + 1
    before = text[max(line, start - _CONTEXT) : start]
    if _INTRODUCED.search(before):
        return True
    last = _LAST_TOKEN.search(text[max(0, start - _CONTEXT) : start])
    if last is None or not _END_OF_TYPE.fullmatch(last[1]):
        return False
    after = text[start + len(name) : start + len(name) + _CONTEXT].lstrip()
    is_outermost = not before[:1].isspace() or before.lstrip().startswith(("extern", "constexpr", "inline", "static"))
    return after.startswith("(") or (is_outermost and after.startswith((";", "=", "[", "{")))
