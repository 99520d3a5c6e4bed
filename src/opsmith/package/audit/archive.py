"""Opens archives that may be damaged or hostile: so many files, so many bytes, and no path that leads out.

Nothing is unpacked to where an archive says. A member is read in pieces; a library among them is kept in a temporary
file of our own while it is looked at.
"""

from __future__ import annotations

import base64
import hashlib
import mmap
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from opsmith.errors import AuditError
from opsmith.package.audit.elf import Bytes, is_elf
from opsmith.package.audit.facts import Member

__all__ = ["MOST_FILES", "MOST_UNPACKED_BYTES", "Archive", "open_archive"]

# torch itself, the largest wheel there is, has 12,000 files and 3 GB.
MOST_FILES = 200_000
MOST_UNPACKED_BYTES = 24 << 30
# Deflate packs at most 1,032 to 1; GPU code and debug information reach 20.
_MOST_RATIO = 200
_RATIO_APPLIES_FROM = 64 << 20
_MOST_TEXT_BYTES = 64 << 20
_PIECE = 1 << 20

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError, OSError)

T = TypeVar("T")


class Archive:
    """An open wheel whose directory has been checked."""

    def __init__(self, opened: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> None:
        self._opened = opened
        self._infos = {info.filename: info for info in infos}

    @property
    def names(self) -> list[str]:
        """The files, in the order of the archive."""
        return list(self._infos)

    def text(self, name: str) -> str:
        """Return a small file as text. Raises AuditError if it is damaged or too large, KeyError if it is not there."""
        if self._infos[name].file_size > _MOST_TEXT_BYTES:
            raise AuditError(f"{name} has {self._infos[name].file_size:,} bytes, more than such a file may have")
        try:
            return self._opened.read(name).decode("utf-8", errors="replace")
        except _BROKEN as error:
            raise AuditError(f"{name} cannot be unpacked: {error}") from None

    def read(self, name: str, look: Callable[[str, Bytes], T]) -> tuple[Member, T | None]:
        """Return a file's digest and time, and what `look` makes of it if it is an ELF file.

        Raises AuditError if it cannot be unpacked.
        """
        info = self._infos[name]
        digest = hashlib.sha256()
        result: T | None = None
        try:
            with self._opened.open(info) as file, tempfile.TemporaryFile(prefix="opsmith-audit-") as kept:
                is_library = False
                for number, piece in enumerate(_pieces(file)):
                    digest.update(piece)
                    is_library = is_library or (number == 0 and is_elf(piece))
                    if is_library:
                        kept.write(piece)
                if is_library:
                    kept.flush()
                    with mmap.mmap(kept.fileno(), 0, access=mmap.ACCESS_READ) as data:
                        result = look(name, data)
        except AuditError:
            raise
        except _BROKEN as error:
            raise AuditError(f"it cannot be unpacked: {error}") from None
        encoded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        return Member(name, info.file_size, f"sha256={encoded}", info.date_time), result


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a wheel. Raises AuditError if it is not a zip archive, or one that no wheel is."""
    try:
        opened = zipfile.ZipFile(path)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise AuditError(f"it is not a zip archive, as wheels are: {error}") from None
    with opened:
        infos = [info for info in opened.infolist() if not info.filename.endswith("/")]
        _check(infos, path.stat().st_size)
        yield Archive(opened, infos)


def _check(infos: list[zipfile.ZipInfo], packed: int) -> None:
    if len(infos) > MOST_FILES:
        raise AuditError(f"the archive has {len(infos):,} files; {MOST_FILES:,} are the most that are read")
    unpacked = sum(info.file_size for info in infos)
    if unpacked > MOST_UNPACKED_BYTES or (unpacked > _RATIO_APPLIES_FROM and unpacked > _MOST_RATIO * packed):
        raise AuditError(
            f"the archive has {packed:,} bytes and says that it unpacks to {unpacked:,}, as zip bombs do: it is not read"
        )
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        path = PurePosixPath(name)
        if (
            not path.parts
            or path.is_absolute()
            or ".." in path.parts
            or "\\" in name
            or "\0" in name
            or not name.isprintable()
        ):
            raise AuditError(f"the archive has a file {name!r}, which would be written outside of where it is unpacked")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise AuditError(f"the archive has a symbolic link, {name!r}; wheels cannot have any")
        if info.flag_bits & 1:
            raise AuditError(f"the archive has an encrypted file, {name!r}")
        if name in seen:
            raise AuditError(f"the archive has two files {name!r}: which one is installed depends on the installer")
        seen.add(name)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with suppress(StopIteration):
        while piece := file.read(_PIECE):
            yield piece
