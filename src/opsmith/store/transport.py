"""Copies files to a shared store and back: a folder, or anything that fsspec has a name for.

What is there may be of anyone's making, and so may a server's answers: each question has an end in time, and a limit of
the names or bytes that are taken.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from opsmith import _env
from opsmith._printable import printable
from opsmith.errors import ArgumentError, StoreError
from opsmith.store.reading import open_regular
from opsmith.store.staging import reserve_name

__all__ = ["Limit", "Transport", "fetch", "open_transport", "read", "until"]

_T = TypeVar("_T")

_CHUNK_BYTES = 1 << 20

_LATE = "no answer in time"

# A web server lists a folder as a page.
_MAX_PAGE_BYTES = 16 << 20


class Limit(NamedTuple):
    """What a question may cost."""

    most: int  # names of a listing, bytes of a file
    end_s: float  # of time.monotonic

    @property
    def left_s(self) -> float:
        """How many seconds are left. Raises TimeoutError if none are."""
        left_s = self.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(_LATE)
        return left_s


class Transport(Protocol):
    """A storage of files with names such as "v1/ab/abcd.json". Its methods raise the exceptions of its kind.

    StoreError says that one file is not as it should be; the others may be.
    """

    def list(self, folder: str, limit: Limit, *, deep: bool = False) -> list[str]:
        """Return the names of the files in a folder, or below it; none where it is not there."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """Open a file to read it from its beginning."""
        ...

    def exists(self, name: str) -> bool:
        """Tell whether there is a file."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Put a small file there; readers see all of it or nothing."""
        ...

    def put(self, source: Path, name: str) -> None:
        """Put a file there; readers see all of it or nothing."""
        ...


def read(transport: Transport, name: str, limit: Limit) -> bytes:
    """Return a file's bytes. Raises StoreError if there are more than the limit."""
    return b"".join(_chunks(transport, name, limit))


def fetch(transport: Transport, name: str, target: Path, limit: Limit) -> None:
    """Copy a file to this machine. Raises StoreError if it has more bytes than the limit."""
    with target.open("wb") as file:
        for chunk in _chunks(transport, name, limit):
            file.write(chunk)


def until(end_s: float, action: Callable[[], _T]) -> _T:
    """Return what an action returns, or raise TimeoutError; what hangs in a network is left behind in its thread."""
    answers: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    start_s = time.monotonic()
    if start_s < end_s:
        thread.start()
        thread.join(end_s - start_s)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(_LATE)
    return answers[0]


def _chunks(transport: Transport, name: str, limit: Limit) -> Iterator[bytes]:
    size = 0
    with transport.open(name) as file:
        while limit.left_s and (chunk := file.read(min(_CHUNK_BYTES, limit.most + 1 - size))):
            size += len(chunk)
            if size > limit.most:
                raise StoreError(f"{printable(name)} has more than the {limit.most} bytes that it may have")
            yield chunk


def open_transport(url: str) -> Transport:
    """Return the way to a folder or an URL; raises StoreError if what is needed for it is not installed."""
    if "://" not in url:
        try:
            return _Folder(_env.absolute_path(url, "OPSMITH_STORE"))
        except ArgumentError as error:
            raise StoreError(str(error)) from None
    try:
        import fsspec

        options = _http_options() if re.match("https?://", url) else {}
        filesystem, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise StoreError(
            f"the shared store {url} needs more packages: {error}. `pip install opsmith[remote]`"
        ) from error
    except ValueError as error:
        raise StoreError(f"the shared store {url} has an address that fsspec does not support: {error}") from error
    if "file" in _protocols(filesystem):
        return _Folder(Path(root))
    return _Fsspec(filesystem, str(root).rstrip("/"))


class _Folder:
    """A folder of a shared file system; needs no further package."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def list(self, folder: str, limit: Limit, *, deep: bool = False) -> list[str]:
        return _first(self._walk(self._root / folder, limit, deep=deep), limit)

    def open(self, name: str) -> IO[bytes]:
        try:
            return open_regular(self._root / name)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise StoreError(f"{printable(str(self._root / name))} is not a regular file") from None
            raise

    def exists(self, name: str) -> bool:
        return (self._root / name).is_file()

    def write(self, name: str, data: bytes) -> None:
        self._write(name, lambda part: part.write_bytes(data))

    def put(self, source: Path, name: str) -> None:
        self._write(name, lambda part: shutil.copyfile(source, part))

    def _walk(self, folder: Path, limit: Limit, *, deep: bool) -> Iterator[str]:
        left = [str(folder)]
        while left:
            # What is not there, or goes meanwhile, has no files.
            with suppress(FileNotFoundError), os.scandir(left.pop()) as entries:
                for entry in entries:
                    if limit.left_s and entry.is_file():
                        yield Path(entry.path).relative_to(self._root).as_posix()
                    elif deep and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)

    def _write(self, name: str, write: Any) -> None:
        target = self._root / name
        # With the umask's modes: the folder's owner chooses who else may write there. Signatures protect the readers.
        target.parent.mkdir(parents=True, exist_ok=True)
        part = reserve_name(target.parent)
        try:
            write(part)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


class _Fsspec:
    """Whatever fsspec has an implementation for. Object stores show a file when it is whole."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._fs, self._root = filesystem, root

    def list(self, folder: str, limit: Limit, *, deep: bool = False) -> list[str]:
        # Others add files all the time, and fsspec remembers listings.
        self._fs.invalidate_cache()
        try:
            found = self._find(self._at(folder), None if deep else 1, limit)
        except FileNotFoundError:
            return []
        start = len(self._root) + 1
        return _first((str(path)[start:] for path in found), limit)

    def open(self, name: str) -> IO[bytes]:
        file: IO[bytes] = self._fs.open(self._at(name), "rb")
        return file

    def exists(self, name: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._at(name)))

    def write(self, name: str, data: bytes) -> None:
        self._make_parent(name)
        self._fs.pipe_file(self._at(name), data)

    def put(self, source: Path, name: str) -> None:
        self._make_parent(name)
        self._fs.put_file(str(source), self._at(name))

    def _find(self, path: str, maxdepth: int | None, limit: Limit) -> Iterable[str]:
        if not getattr(self._fs, "async_impl", False):
            return self._fs.find(path, maxdepth=maxdepth)  # type: ignore[no-any-return]
        # A coroutine can be stopped, so a server whose listing never ends does not go on filling the memory.
        from fsspec.asyn import sync
        from fsspec.exceptions import FSTimeoutError

        try:
            return sync(self._fs.loop, self._fs._find, path, maxdepth=maxdepth, timeout=limit.left_s)  # type: ignore[no-any-return]
        except FSTimeoutError:
            raise TimeoutError(_LATE) from None

    def _make_parent(self, name: str) -> None:
        # Object stores have no folders and do nothing here, or would look for a bucket; real file systems need them.
        if "/" in name and not hasattr(self._fs, "_cat_file"):
            self._fs.makedirs(self._at(name.rpartition("/")[0]), exist_ok=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


def _first(names: Iterable[str], limit: Limit) -> list[str]:
    """Return names in order, of the first `most` of them."""
    return sorted(islice(names, limit.most))


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _http_options() -> dict[str, Any]:
    """Return what fsspec needs to read files in a stream, and listings up to a limit. Raises ImportError."""
    from aiohttp import ClientPayloadError, ClientResponse

    class Bounded(ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                body = bytearray()
                async for part in self.content.iter_chunked(_CHUNK_BYTES):
                    body += part
                    if len(body) > _MAX_PAGE_BYTES:
                        self.close()
                        raise ClientPayloadError(f"{self.url} has more than {_MAX_PAGE_BYTES} bytes")
                self._body = bytes(body)
            return self._body

    return {"block_size": 0, "client_kwargs": {"response_class": Bounded}}
