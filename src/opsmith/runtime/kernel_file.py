"""Finds a kernel's files from a file name, `opsmith.view(...)` or `opsmith.native(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opsmith.errors import DefinitionError
from opsmith.spec.cpp_names import identifier
from opsmith.spec.definition import GPU_SUFFIXES, Device, Kernel
from opsmith.spec.signature import Signature

__all__ = ["KernelFile", "native", "read_kernel", "view"]


@dataclass(frozen=True)
class KernelFile:
    """A kernel's files, as `opsmith.view` or `opsmith.native` say them; paths are relative to the definition's file."""

    style: Literal["view", "native"]
    sources: tuple[str, ...]
    entry: str | None
    flags: tuple[str, ...]


def view(source: str, *beside: str, entry: str | None = None, flags: Sequence[str] = ()) -> KernelFile:
    """Say where a view kernel is, in more words than a file name: its function's name, more files, compiler flags."""
    return KernelFile("view", (source, *beside), entry, tuple(flags))


def native(source: str, *beside: str, entry: str | None = None, flags: Sequence[str] = ()) -> KernelFile:
    """Say that a kernel is native: a function over `torch::stable::Tensor` that allocates its outputs itself.

    It is for outputs whose size depends on data and for kernels that call PyTorch's own operators. `beside` are more
    files to compile and link, such as a `.cu` that the `.cpp` launches kernels of.
    """
    return KernelFile("native", (source, *beside), entry, tuple(flags))


def read_kernel(signature: Signature, given: object, file: Path, device: Device) -> Kernel:
    """Return a device's kernel as a definition in `file` gives it; raises DefinitionError for an unsuitable one."""
    if isinstance(given, str):
        given = view(given)
    if not isinstance(given, KernelFile):
        raise DefinitionError(f"{signature.name}: a kernel is a file name, opsmith.view(...) or opsmith.native(...)")
    if signature.data_dependent and given.style == "view":
        name = sorted(signature.data_dependent)[0]
        raise DefinitionError(
            f"{signature.name}: no input determines the size {name} of the output, so it cannot be allocated in "
            "advance. Write a native kernel (opsmith.native), or pass the size as an argument"
        )
    for source in given.sources:
        if device == "cpu" and Path(source).suffix in GPU_SUFFIXES:
            raise DefinitionError(f"{signature.name}: cpu= names the GPU source {source}; give it as cuda=")
    entry = given.entry or signature.name
    if identifier(last := entry.rpartition("::")[2]) != last:
        raise DefinitionError(
            f"{signature.name}: {last} is a keyword of C++, so no kernel can have that name; choose another with "
            f'opsmith.{given.style}("{given.sources[0]}", entry="{identifier(last)}")'
        )
    folder = file.parent if file.exists() else Path.cwd()
    sources = tuple((folder / source).resolve() for source in given.sources)
    return Kernel(given.style, sources, entry, given.flags)
