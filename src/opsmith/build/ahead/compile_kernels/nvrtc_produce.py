"""Compiles what is asked for with NVRTC: several variants of a kernel in one program, which is read but once."""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .images import Image
from .nvrtc_headers import Headers, why_missing
from .nvrtc_library import Nvrtc
from .producer import FailureError, Order, Produced, compile_all

__all__ = ["produce"]

# To read a file takes NVRTC 40 ms, and each variant some 5 ms more.
_PER_PROGRAM = 16

_OPTIONS = ("-std=c++20", "-DNDEBUG")
_NO_HEADER = re.compile(
    r"(?:catastrophic |fatal )?error: (?:cannot|could not) open source file \"(?P<header>[^\"]+)\".*"
)
# Flags that name a folder of headers, and one that names a header.
_FOLDER = re.compile(r"-I\s*|--include-path=")
_BEFORE = re.compile(r"-include|--pre-include")
# What a message calls the names of the variants, which stand behind the program.
_NAME_MAP = re.compile(r"^__nv_name_map\(\d+\)", re.MULTILINE)

# Comments and texts, whose braces do not count.
_NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'[{}]'", re.DOTALL)


@dataclass(frozen=True)
class _Program:
    """Some variants of a kernel, for one image each: "cubin:90a"."""

    variants: tuple[dict[str, Any], ...]
    image: str


def produce(order: Order) -> Produced:
    """Return the images of an order; raises FailureError for a kernel that does not compile."""
    assert order.library is not None
    assert order.opsmith is not None
    variants = order.request["kernels"]
    parts = [tuple(variants[at : at + _PER_PROGRAM]) for at in range(0, len(variants), _PER_PROGRAM)]
    programs = [_Program(part, image) for part in parts for image in order.images]
    flags, folders = _split_flags(order)
    with tempfile.TemporaryDirectory(dir=order.output.absolute().parent, prefix="nvrtc-") as folder:
        users = (order.kernel.parent, *order.include, *folders)
        headers = Headers(order.opsmith, users, order.cuda, Path(folder))
        files = headers.closure(order.kernel)
        headers.lay_out()
        compile_one = partial(_compile, Nvrtc(order.library), order, headers, flags)
        made: dict[str, list[Image]] = {image: [] for image in order.images}
        for program, found in zip(programs, compile_all(compile_one, programs), strict=True):
            if isinstance(found, str):
                raise FailureError(found)
            made[program.image] += found
    return Produced([image for images in zip(*made.values(), strict=True) for image in images], files)


def _compile(nvrtc: Nvrtc, order: Order, headers: Headers, flags: list[str], program: _Program) -> list[Image] | str:
    """Return the images of a program's variants, or the messages of what is wrong with them."""
    kind, _, arch = program.image.partition(":")
    target = f"-arch={'compute' if kind == 'ptx' else 'sm'}_{arch}"
    options = [target, *_OPTIONS, *headers.options, *flags]
    text = order.kernel.read_text(encoding="utf-8", errors="replace")
    expressions = [variant["name"] for variant in program.variants]
    # Without a folder: NVRTC looks for "header.cuh" in the name's own first, from where this process happens to be.
    made = nvrtc.compile(_source(order, text, program), order.kernel.name, options, expressions)
    log = _readable(made.log, order, headers)
    if made.code is None:
        return _unclosed(order, text) + log
    if log:
        print(log, file=sys.stderr)
    return [
        Image(
            kind=kind,
            arch=int(arch.rstrip("af")),
            is_exact=arch.endswith("a"),
            threads=0,
            shared_bytes=0,
            scratch=0,
            name=name,
            data=made.code,
        )
        for name in made.names
    ]


def _source(order: Order, text: str, program: _Program) -> str:
    """Return the user's file with what is before and behind it: the element types, and the check of what was read of it."""
    request = order.request
    mark = f"#line 1 {_quoted(request['mark'])}"
    checks = [
        f"static_assert(opsmith_same<decltype(&{variant['name']}), {variant['type']}>, "
        '"its type is not that of its first declaration in the file, which opsmith reads");'
        for variant in program.variants
    ]
    return "\n".join(
        [
            "#include <opsmith/types.h>",
            f"#line 1 {_quoted(request['file'])}",
            text,
            # An error here is what an open bracket in the user's file leads to.
            f"#line 1 {_quoted(order.name)}",
            "namespace opsmith_ended {}",
            "template <class A, class B> constexpr bool opsmith_same = false;",
            "template <class A> constexpr bool opsmith_same<A, A> = true;",
            mark,
            request["declared"],
            *(line for check in checks for line in (mark, check)),
            "",
        ]
    )


def _readable(log: str, order: Order, headers: Headers) -> str:
    """Return NVRTC's messages with the names of files as they are to the user, and a missing header in clear words."""
    text = log.replace(f"{headers.offered}/opsmith/", f"{headers.opsmith}/opsmith/")
    text = _NAME_MAP.sub(f"{order.request['mark']}(1)", text)
    text = _NO_HEADER.sub(lambda found: f"error: {why_missing(found['header'])}", text)
    # What it says of its options has no file.
    return re.sub(r"^nvrtc: error: ", f"{order.request['file']}(1): error: NVRTC: ", text, flags=re.MULTILINE)


def _unclosed(order: Order, text: str) -> str:
    """Return an error where the user's file ends and has more opening than closing braces.

    NVRTC takes what follows for a part of the kernel, and reports something there.
    """
    code = _NO_CODE.sub("", text)
    if code.count("{") <= code.count("}"):
        return ""
    return f"{order.request['file']}({text.count(chr(10))}): error: the file ends, and a brace is not closed\n"


def _split_flags(order: Order) -> tuple[list[str], tuple[Path, ...]]:
    """Return the user's flags without those that name folders of headers, and these folders.

    Raises FailureError for a flag by which a header is read that nothing in the kernel's file names.
    """
    others, folders = [], []
    for flag in order.request["flags"]:
        if (found := _FOLDER.match(flag)) is not None:
            folders.append(order.kernel.parent / flag[found.end() :])
        elif _BEFORE.match(flag):
            raise FailureError(
                f"{order.request['file']}(1): error: the flag {flag} reads a header before the file; write `#include` in it"
            )
        else:
            others.append(flag)
    return others, tuple(folders)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
