"""Finds a kernel's files from a file name, `opsmith.view(...)`, `opsmith.native(...)` or `opsmith.triton(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opsmith.errors import DefinitionError
from opsmith.spec.cpp_names import identifier
from opsmith.spec.definition import GPU_SUFFIXES, Device, Kernel
from opsmith.spec.signature import Signature

__all__ = ["KernelFile", "native", "read_kernel", "triton", "view"]


@dataclass(frozen=True)
class KernelFile:
    """A kernel's files, as `opsmith.view` or its like say them; paths are relative to the definition's file.

    `launch` is what `opsmith.triton` was given: the grid, the configurations, and what these have in common.
    """

    style: Literal["view", "native", "triton"]
    sources: tuple[str, ...]
    entry: str | None
    flags: tuple[str, ...] = ()
    launch: tuple[object, Sequence[Mapping[str, Any]] | None, Mapping[str, Any]] | None = None


def view(source: str, *beside: str, entry: str | None = None, flags: Sequence[str] = ()) -> KernelFile:
    """Say where a view kernel is, in more words than a file name: its function's name, more files, compiler flags."""
    return KernelFile("view", (source, *beside), entry, tuple(flags))


def native(source: str, *beside: str, entry: str | None = None, flags: Sequence[str] = ()) -> KernelFile:
    """Say that a kernel is native: a function over `torch::stable::Tensor` that allocates its outputs itself.

    It is for outputs whose size depends on data and for kernels that call PyTorch's own operators. `beside` are more
    files to compile and link, such as a `.cu` that the `.cpp` launches kernels of.
    """
    return KernelFile("native", (source, *beside), entry, tuple(flags))


def triton(
    kernel: str,
    *,
    grid: str | int | Sequence[str | int],
    configs: Sequence[Mapping[str, Any]] | None = None,
    **constants: Any,
) -> KernelFile:
    """Say that a kernel is a Triton function, `"file.py:name"`, and how it is launched.

    The kernel's parameters get their values by name: a tensor or output is a pointer, `M` of its annotation a size,
    `x_stride_0` a stride, and ints, floats and bools are the definition's arguments. Its other `tl.constexpr` are
    `constants`, as are `num_warps`, `num_stages` and `maxnreg`. `grid` is text over all of these numbers, for up to three
    sizes: `"cdiv(M, BLOCK_M), B"`.

    `configs` has constants that depend on the call, and a condition, `"when"`, in each but the last; the first that holds
    is taken.
    """
    source, _, entry = kernel.partition(":")
    return KernelFile("triton", (source,), entry or None, launch=(grid, configs, constants))


def read_kernel(signature: Signature, given: object, file: Path, device: Device) -> Kernel:
    """Return a device's kernel as a definition in `file` gives it; raises DefinitionError for an unsuitable one."""
    if isinstance(given, str):
        if Path(given.partition(":")[0]).suffix == ".py":
            raise DefinitionError(
                f"{signature.name}: {given} is a Triton kernel, which needs a launch: "
                f'opsmith.triton("{given}", grid="cdiv(n, BLOCK)", BLOCK=1024)'
            )
        given = view(given)
    if not isinstance(given, KernelFile):
        raise DefinitionError(
            f"{signature.name}: a kernel is a file name, opsmith.view(...), opsmith.native(...) or opsmith.triton(...)"
        )
    if device == "cpu" and given.style == "triton":
        raise DefinitionError(
            f"{signature.name}: cpu= names the Triton kernel {given.sources[0]}; give it as cuda=. TRITON_INTERPRET=1 runs "
            "it on the CPU"
        )
    if signature.data_dependent and given.style != "native":
        name = sorted(signature.data_dependent)[0]
        raise DefinitionError(
            f"{signature.name}: no input determines the size {name} of the output, so it cannot be allocated in "
            "advance. Write a native kernel (opsmith.native), or pass the size as an argument"
        )
    for source in given.sources:
        if device == "cpu" and Path(source).suffix in GPU_SUFFIXES:
            raise DefinitionError(f"{signature.name}: cpu= names the GPU source {source}; give it as cuda=")
    entry = given.entry or signature.name
    if given.style != "triton" and identifier(last := entry.rpartition("::")[2]) != last:
        raise DefinitionError(
            f"{signature.name}: {last} is a keyword of C++, so no kernel can have that name; choose another with "
            f'opsmith.{given.style}("{given.sources[0]}", entry="{identifier(last)}")'
        )
    folder = file.parent if file.exists() else Path.cwd()
    sources = tuple((folder / source).resolve() for source in given.sources)
    launch = None
    if given.launch is not None:
        from opsmith.spec.launch import parse_launch

        launch = parse_launch(f"{signature.name}: {given.sources[0]}", *given.launch)
    return Kernel(given.style, sources, entry, given.flags, launch)
