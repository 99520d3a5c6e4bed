"""Computes the keys that artefacts are stored under.

A source key covers everything that is known before a compiler runs. Its inputs are a plain mapping from a name to a
digest, for example

    inputs = {
        "sources": digest(*texts),
        "flags": digest(*flags),
        "host compiler": digest(host.identity),
    }

so a new field is one more line, and `explain` can later say which line changed. An artefact key adds what only the
compiler can tell: the headers that it read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from opsmith.store.reading import open_regular

__all__ = ["KEY_SCHEMA_VERSION", "artifact_key", "digest", "digest_file", "is_key", "source_key"]

# Part of every key: raise it when the meaning of a key changes, and no old artefact is found any more.
KEY_SCHEMA_VERSION = 1

_CHUNK_BYTES = 1 << 20

_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)


def digest(*parts: str | bytes) -> str:
    """Return the SHA-256 of the parts, as hex; a text counts as its UTF-8 bytes.

    Each part goes in with its length, so ("ab", "c") and ("a", "bc") differ.
    """
    state = hashlib.sha256()
    for part in parts:
        # Paths of the file system may hold bytes that are not UTF-8; Python carries them as surrogates.
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def digest_file(path: Path, *, most: int | None = None) -> str:
    """Return the SHA-256 of a file's bytes, as hex.

    Raises OSError if it cannot be read, is not a regular file, or has more than `most` bytes.
    """
    state = hashlib.sha256()
    with open_regular(path) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"has more than {most} bytes", str(path))
        while chunk := file.read(_CHUNK_BYTES):
            state.update(chunk)
    return state.hexdigest()


def source_key(inputs: Mapping[str, str]) -> str:
    """Return the key of everything known before compiling: names and their digests, in any order."""
    return digest("opsmith source key", str(KEY_SCHEMA_VERSION), *_flat(inputs))


def artifact_key(source: str, headers: Mapping[str, str]) -> str:
    """Return the key of an artefact: its source key, and the names and digests of the headers it was compiled from."""
    return digest("opsmith artefact key", str(KEY_SCHEMA_VERSION), source, *_flat(headers))


def is_key(text: str) -> bool:
    """Tell whether a text can be a key: what comes from a file or from elsewhere becomes part of a path."""
    return _KEY.fullmatch(text) is not None


def _flat(table: Mapping[str, str]) -> list[str]:
    return [text for row in sorted(table.items()) for text in row]
