"""Writes headers with only the torch operators that a source mentions.

ATen/Functions.h includes a header for each of 1,345 operators, and most sources call five. PyTorch's own sources include
these one by one (AT_PER_OPERATOR_HEADERS), so its headers do not rely on having them all. Here torch's Functions.h is
rewritten, without those lines whose operator the source does not mention; all the rest of it stays. An operator that
is reached in another way, such as a name pasted together by a macro, is an error, and the source is compiled with the
whole header then.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["write_operator_headers"]

_HEADERS = ("ATen/Functions.h", "ATen/NativeFunctions.h")
_INCLUDE = re.compile(r"#include <ATen/ops/(?P<operator>\w+?)(?:_native)?\.h>")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\w+")

# Headers that the slim one brings on demand, and that call operators without including them.
_CALLERS = ("torch/csrc/api/include/torch/utils.h", "torch/csrc/api/include/torch/autograd.h", "torch/library.h")

# What is added to an operator's name: `add_out` and `relu_` are declared in the headers of add and relu.
_ENDING = re.compile(r"(?:_symint)?(?:_outf?)?_?$")


def write_operator_headers(text: str, torch_include: Path, folder: Path) -> tuple[str, ...]:
    """Write what a source of this text needs into a folder, and return the flags for it: none where that cannot be done.

    `torch_include` is torch's folder of headers. Raises OSError if the folder cannot be written.
    """
    mentioned = set(_WORD.findall("\n".join([text, *(_read(torch_include / name) for name in _CALLERS)])))
    mentioned |= {_ENDING.sub("", word) for word in mentioned}
    made = {name: _without_others(torch_include / name, mentioned) for name in _HEADERS}
    if not all(made.values()):
        return ()
    for name, header in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(header, encoding="utf-8")
    return (f"-I{folder.name}", "-DAT_PER_OPERATOR_HEADERS")


def _without_others(header: Path, mentioned: set[str]) -> str:
    """Return a header without the lines for operators that are mentioned neither by the source nor by the header."""
    if not (lines := _read(header).splitlines()):
        return ""
    own = "\n".join(line for line in lines if not _INCLUDE.match(line))
    wanted = mentioned | set(_WORD.findall(_COMMENT.sub(" ", own)))
    kept = (line for line in lines if not (found := _INCLUDE.match(line)) or found["operator"] in wanted)
    return "\n".join(kept) + "\n"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
