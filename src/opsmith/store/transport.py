"""Copies files to a shared store and back: a folder, or anything that fsspec has a name for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Protocol

from opsmith.errors import StoreError
from opsmith.store.staging import reserve_name

__all__ = ["Transport", "open_transport"]


class Transport(Protocol):
    """A storage of files with names such as "v1/ab/abcd.json". Its methods raise the exceptions of its kind."""

    def list(self, folder: str, *, deep: bool = False) -> list[str]:
        """Return the names of the files in a folder, or below it; none where it is not there."""
        ...

    def read(self, name: str) -> bytes:
        """Return a small file's bytes."""
        ...

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
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


def open_transport(url: str) -> Transport:
    """Return the way to a folder or an URL; raises StoreError if what is needed for it is not installed."""
    if "://" not in url:
        return _Folder(Path(url).expanduser().absolute())
    try:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise StoreError(
            f"the shared store {url} needs more packages: {error}. `pip install opsmith[remote]`"
        ) from error
    except ValueError as error:
        raise StoreError(f"the shared store {url} has an address that fsspec does not support: {error}") from error
    return _Fsspec(filesystem, str(root).rstrip("/"))


class _Folder:
    """A folder of a shared file system; needs no further package."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def list(self, folder: str, *, deep: bool = False) -> list[str]:
        base = self._root / folder
        found = base.rglob("*") if deep else base.glob("*")
        return sorted(path.relative_to(self._root).as_posix() for path in found if path.is_file())

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def fetch(self, name: str, target: Path) -> None:
        shutil.copyfile(self._root / name, target)

    def exists(self, name: str) -> bool:
        return (self._root / name).is_file()

    def write(self, name: str, data: bytes) -> None:
        self._write(name, lambda part: part.write_bytes(data))

    def put(self, source: Path, name: str) -> None:
        self._write(name, lambda part: shutil.copyfile(source, part))

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

    def list(self, folder: str, *, deep: bool = False) -> list[str]:
        # Others add files all the time, and fsspec remembers listings.
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._at(folder), maxdepth=None if deep else 1)
        except FileNotFoundError:
            return []
        start = len(self._root) + 1
        return sorted(str(path)[start:] for path in found)

    def read(self, name: str) -> bytes:
        data: bytes = self._fs.cat_file(self._at(name))
        return data

    def fetch(self, name: str, target: Path) -> None:
        self._fs.get_file(self._at(name), str(target))

    def exists(self, name: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._at(name)))

    def write(self, name: str, data: bytes) -> None:
        self._make_parent(name)
        self._fs.pipe_file(self._at(name), data)

    def put(self, source: Path, name: str) -> None:
        self._make_parent(name)
        self._fs.put_file(str(source), self._at(name))

    def _make_parent(self, name: str) -> None:
        # Object stores have no folders and do nothing here, or would look for a bucket; real file systems need them.
        if "/" in name and not hasattr(self._fs, "_cat_file"):
            self._fs.makedirs(self._at(name.rpartition("/")[0]), exist_ok=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"
