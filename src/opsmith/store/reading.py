"""Reads files that may be damaged or hostile: regular files only, so many bytes and no more, JSON without surprises."""

from __future__ import annotations

import errno
import json
import os
import stat
from io import FileIO
from pathlib import Path
from typing import Any

__all__ = ["open_regular", "parse_json", "read_regular"]

# A manifest, a record or a note is a few KB.
_MAX_TEXT_BYTES = 64 << 20

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path) -> FileIO:
    """Open a file to read, unbuffered; raises OSError if it is a FIFO, a device, a socket or a folder.

    Reading /dev/zero never ends, opening a FIFO waits for a writer, and opening some devices acts.
    """
    _require_regular(path.stat(), path)
    # Another file may lie there by now; O_NONBLOCK keeps a FIFO from waiting.
    file = open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | _NONBLOCK))  # noqa: SIM115
    try:
        _require_regular(os.fstat(file.fileno()), path)
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path, *, most: int = _MAX_TEXT_BYTES) -> bytes:
    """Return the bytes of a regular file; raises OSError if it is not one or has more than `most`."""
    with open_regular(path) as file:
        parts = []
        left = most + 1
        while left > 0 and (part := file.read(left)):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise OSError(errno.EFBIG, f"has more than {most} bytes", str(path))
    return b"".join(parts)


def parse_json(data: str | bytes) -> Any:
    """Return what a text of JSON in UTF-8 says. Raises ValueError for everything that it cannot be.

    That includes brackets nested too deeply and strings that no file, path or terminal can take: a lone surrogate is
    accepted only where it stands for a byte of a path (PEP 383).
    """
    text = data if isinstance(data, str) else data.decode("utf-8")
    try:
        content = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    return content


def _require_regular(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
