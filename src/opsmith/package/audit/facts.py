"""Defines what is known about a file before anything is judged: its libraries, and the wheel around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsmith.package.audit.elf import Elf
from opsmith.package.audit.finding import Finding
from opsmith.package.audit.schemas import Schema
from opsmith.package.audit.symbols import Needs
from opsmith.toolchain.archs import CudaArch
from opsmith.toolchain.shims import Release

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.tags import Tag

    from opsmith.store import Manifest

__all__ = ["Facts", "Library", "Member", "Sizes", "Wheel"]


@dataclass(frozen=True)
class Sizes:
    """Where the bytes of a library are."""

    code: int
    data: int
    gpu: int
    debug: int
    rest: int

    @property
    def whole(self) -> int:
        """The size of the file."""
        return self.code + self.data + self.gpu + self.debug + self.rest


@dataclass(frozen=True)
class Library:
    """A shared library. `path` is its name inside the wheel; `manifest` is what opsmith has written beside it."""

    path: str
    elf: Elf
    needs: Needs
    sizes: Sizes
    cuda: tuple[CudaArch, ...] = ()
    cubin_version: Release = (0, 0)  # the newest of its machine code: 1.7 until CUDA 12, 1.8 from CUDA 13 on
    ptx_version: Release | None = None  # the newest of its PTX
    amd: tuple[str, ...] = ()
    amd_is_unread: bool = False  # compressed by what this Python lacks
    schemas: tuple[Schema, ...] = ()
    namespaces: tuple[str, ...] = ()  # claimed as a whole: TORCH_LIBRARY
    fragments: tuple[str, ...] = ()  # added to: TORCH_LIBRARY_FRAGMENT
    paths: tuple[str, ...] = ()
    sha256: str = ""
    manifest: Manifest | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Member:
    """A file in a wheel: its digest as RECORD writes it, and its time stamp."""

    name: str
    size: int
    digest: str
    time: tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class Wheel:
    """What a wheel says of itself. `tags` are those of its name, `declared` those of its WHEEL file."""

    file_name: str
    name: str
    version: str
    tags: frozenset[Tag]
    declared: frozenset[Tag]
    is_pure: bool
    requires: tuple[Requirement, ...]
    requires_python: str
    members: tuple[Member, ...]
    record: Mapping[str, tuple[str, str]]  # name -> digest and size, as written
    licences: tuple[str, ...]
    imports_opsmith: str  # the first module that does, if opsmith has built a library of the wheel
    has_foreign_binaries: bool  # of Windows or macOS, which are not read
    copies: tuple[str, ...] = ()  # of opsmith's runtime, as modules: a standalone wheel has them


@dataclass(frozen=True)
class Facts:
    """Everything that is judged. `problems` are findings of reading itself: what is damaged has no facts."""

    file_name: str
    size: int
    libraries: tuple[Library, ...]
    wheel: Wheel | None = None
    problems: tuple[Finding, ...] = ()

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """The schemas of all libraries, each once."""
        found = {schema.text: schema for library in self.libraries for schema in library.schemas}
        return tuple(found.values())
