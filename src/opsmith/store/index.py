"""Maps a source key and the headers as they are now to an artefact.

A source key cannot cover headers: only the compiler knows which it reads. So each publication leaves a record of the
headers it found, and a lookup accepts the record whose headers all still have the recorded digests (the direct mode of
ccache, https://ccache.dev/manual/latest.html#_the_direct_mode). Unlike there, a record may also say where no header was,
ahead of those that were found (`ABSENT`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from opsmith.store.files import list_files, write_atomic
from opsmith.store.headers import HeaderDigests
from opsmith.store.intact import retry_stale
from opsmith.store.reading import parse_json, read_regular
from opsmith.store.safety import is_private
from opsmith.store.staging import make_private

__all__ = [
    "Record",
    "changed_headers",
    "is_current",
    "read_record",
    "read_records",
    "record_bytes",
    "write_record",
]

# 2: headers outside of the roots are named from a root; before, by the path in the checkout that built.
_FORMAT_VERSION = 2


class Record(NamedTuple):
    """One publication: the portable names and digests (or ABSENT) of its headers, and the artefact made from them."""

    headers: Mapping[str, str]
    artifact: str

    @classmethod
    def from_json(cls, text: bytes) -> Record | None:
        """Return the record, or None if the text is damaged or of another format."""
        try:
            content = parse_json(text)
            if content["format"] != _FORMAT_VERSION or not isinstance(content["artifact"], str):
                return None
            headers = dict(content["headers"])
            if not all(isinstance(text, str) for item in headers.items() for text in item):
                return None
            return cls(headers, content["artifact"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def read_records(folder: Path) -> tuple[Record, ...]:
    """Return a source key's readable records, those with the most headers first.

    Where a header appeared that the compiler would now take, a record without its absence still holds; the longer record
    is then the truer one. Records that others could have written do not count.
    """
    if not (is_private(folder.parent) and is_private(folder)):
        return ()
    records = [read_record(path) for path in list_files(folder, ".json") if is_private(path)]
    return tuple(sorted((record for record in records if record), key=lambda record: -len(record.headers)))


def write_record(folder: Path, record: Record, *, scratch: Path) -> None:
    """Add a record; the same record twice is one. Raises OSError."""
    make_private(folder.parent, scratch)
    make_private(folder, scratch)
    # The artefact's key covers the headers, so it names the record too.
    write_atomic(folder / f"{record.artifact}.json", record_bytes(record), scratch=scratch)


def is_current(record: Record, digests: HeaderDigests) -> bool:
    """Tell whether every header of the record is now as it was then."""
    return all(digests.is_as_then(name, digest) for name, digest in record.headers.items())


def changed_headers(record: Record, digests: HeaderDigests) -> tuple[str, ...]:
    """Return the headers of the record that changed, are gone, or have appeared where there was none."""
    return tuple(name for name, digest in record.headers.items() if not digests.is_as_then(name, digest))


def read_record(path: Path) -> Record | None:
    """Return the record of a file, or None if it is damaged or another's."""
    try:
        record = Record.from_json(retry_stale(lambda: read_regular(path)))
    except OSError:
        return None
    return record if record is not None and record.artifact == path.stem else None


def record_bytes(record: Record) -> bytes:
    """Return the text of a record, the same for the same record."""
    content = {"format": _FORMAT_VERSION, "artifact": record.artifact, "headers": dict(sorted(record.headers.items()))}
    return json.dumps(content).encode()
