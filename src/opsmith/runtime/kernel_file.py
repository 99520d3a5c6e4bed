"""Finds a kernel's files from a file name, `opsmith.view(...)` or its like: native, triton, kernel, cute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsmith.errors import DefinitionError
from opsmith.spec.cpp_names import identifier
from opsmith.spec.definition import GPU_SUFFIXES, Device, Kernel
from opsmith.spec.signature import Signature

if TYPE_CHECKING:
    from opsmith.spec.launch import Launch

__all__ = ["KernelFile", "cute", "kernel", "native", "read_kernel", "triton", "view"]


@dataclass(frozen=True)
class KernelFile:
    """A kernel's files, as `opsmith.view` or its like say them; paths are relative to the definition's file.

    `launch` is what `opsmith.triton` or `opsmith.kernel` was given: the grid, the configurations, what these have in common,
    and of a CUDA kernel the block and its shared memory; of `opsmith.cute` the configurations alone.
    """

    style: Literal["view", "native", "triton", "nvrtc", "cute"]
    sources: tuple[str, ...]
    entry: str | None
    flags: tuple[str, ...] = ()
    launch: _Launch | None = None


@dataclass(frozen=True)
class _Launch:
    grid: object
    configs: Sequence[Mapping[str, Any]] | None
    constants: Mapping[str, Any]
    block: object = None
    shared: object = 0


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
    `constants`, as are Triton's options: `num_warps`, `num_stages`, for NVIDIA's GPUs `maxnreg`, and for AMD's
    `waves_per_eu`, `matrix_instr_nonkdim` and `kpack`. `grid` is text over all of these numbers, for up to three sizes:
    `"cdiv(M, BLOCK_M), B"`.

    `configs` has constants that depend on the call, and a condition, `"when"`, in each but the last; the first that holds
    is taken.
    """
    source, _, entry = kernel.partition(":")
    return KernelFile("triton", (source,), entry or None, launch=_Launch(grid, configs, constants))


def kernel(
    kernel: str,
    *,
    grid: str | int | Sequence[str | int],
    block: str | int | Sequence[str | int],
    shared: str | int = 0,
    configs: Sequence[Mapping[str, Any]] | None = None,
    flags: Sequence[str] = (),
    **constants: Any,
) -> KernelFile:
    """Say that a kernel is a `__global__` function in CUDA C++, `"file.cu:name"`, and how it is launched.

    NVRTC compiles it, which needs no nvcc and no toolkit. The function's parameters get their values by name: a tensor or
    output is a pointer, `M` of its annotation a size, `x_stride_0` a stride, and ints, floats and bools are the
    definition's arguments. Its template parameters are the definition's element types, `class T`; `class Index`, which is
    int32_t or int64_t as the sizes of a call need it; and `constants`, ints and bools.

    `grid` and `block` are text over all of these numbers, for up to three axes: `"cdiv(M, BLOCK), B"`. `shared` is the
    dynamic shared memory of a block in bytes. `configs` has constants that depend on the call, and a condition, `"when"`,
    in each but the last; the first that holds is taken. `flags` are options of NVRTC's.
    """
    source, _, entry = kernel.partition(":")
    launch = _Launch(grid, configs, constants, block, shared)
    return KernelFile("nvrtc", (source,), entry or None, tuple(flags), launch)


def cute(kernel: str, *, configs: Sequence[Mapping[str, Any]] | None = None, **constants: Any) -> KernelFile:
    """Say that a kernel is written in CuTe DSL, and which `@cute.jit` function launches it: `"file.py:name"`.

    The function's parameters get their values by name: a tensor or output is a `cute.Tensor` of the definition's element
    type and rank, with dynamic sizes and strides but for the last, which is 1, and data at a multiple of 16 bytes; `M` of
    its annotation is a size, `cutlass.Int64` or `Int32`; ints, floats and bools are the definition's arguments. Bools and
    Literals may be `cutlass.Constexpr`, and so are `constants`. A parameter of the type `cuda.CUstream` gets PyTorch's
    stream, which the kernels are launched on.

    `configs` has constants that depend on the call, and a condition, `"when"`, in each but the last; the first that holds
    is taken.
    """
    source, _, entry = kernel.partition(":")
    return KernelFile("cute", (source,), entry or None, launch=_Launch(None, configs, constants))


def read_kernel(signature: Signature, given: object, file: Path, device: Device) -> Kernel:
    """Return a device's kernel as a definition in `file` gives it; raises DefinitionError for an unsuitable one."""
    if isinstance(given, str):
        if Path(given.partition(":")[0]).suffix == ".py":
            raise DefinitionError(
                f"{signature.name}: {given} is a Triton kernel, which needs a launch: "
                f'opsmith.triton("{given}", grid="cdiv(n, BLOCK)", BLOCK=1024); or it is one in CuTe DSL: '
                f'opsmith.cute("{given}")'
            )
        if Path(given.partition(":")[0]).suffix == ".cu" and ":" in given:
            raise DefinitionError(
                f"{signature.name}: {given} is a `__global__` function, which needs a launch: "
                f'opsmith.kernel("{given}", grid="cdiv(n, 256)", block=256)'
            )
        given = view(given)
    if not isinstance(given, KernelFile):
        raise DefinitionError(
            f"{signature.name}: a kernel is a file name, opsmith.view(...), opsmith.native(...), opsmith.triton(...), "
            "opsmith.kernel(...) or opsmith.cute(...)"
        )
    if device == "cpu" and given.style == "triton":
        raise DefinitionError(
            f"{signature.name}: cpu= names the Triton kernel {given.sources[0]}; give it as cuda=. TRITON_INTERPRET=1 runs "
            "it on the CPU"
        )
    if device == "cpu" and given.style in ("nvrtc", "cute"):
        language = "CUDA" if given.style == "nvrtc" else "CuTe"
        raise DefinitionError(
            f"{signature.name}: cpu= names the {language} kernel {given.sources[0]}; give it as cuda="
        )
    if signature.data_dependent and given.style != "native":
        name = sorted(signature.data_dependent)[0]
        known = ", ".join(dict.fromkeys(dim for each in signature.tensors for dim in each.tensor_type.shape.names))
        raise DefinitionError(
            f"{signature.name}: no input determines the size {name} of the output, so it cannot be allocated in "
            f"advance; the inputs have {known or 'no named size'}. Use one of theirs, write a native kernel "
            "(opsmith.native), or pass the size as an argument"
        )
    for source in given.sources:
        if device == "cpu" and Path(source).suffix in GPU_SUFFIXES:
            raise DefinitionError(f"{signature.name}: cpu= names the GPU source {source}; give it as cuda=")
    entry = given.entry or signature.name
    if given.style not in ("triton", "cute") and identifier(last := entry.rpartition("::")[2]) != last:
        raise DefinitionError(
            f"{signature.name}: {last} is a keyword of C++, so no kernel can have that name; choose another with "
            + (
                f'opsmith.kernel("{given.sources[0]}:{identifier(last)}", ...)'
                if given.style == "nvrtc"
                else f'opsmith.{given.style}("{given.sources[0]}", entry="{identifier(last)}")'
            )
        )
    folder = file.parent if file.exists() else Path.cwd()
    sources = tuple((folder / source).resolve() for source in given.sources)
    launch = None
    if given.launch is not None:
        launch = _parse(f"{signature.name}: {given.sources[0]}", given)
    return Kernel(given.style, sources, entry, given.flags, launch)


def _parse(where: str, given: KernelFile) -> Launch:
    found = given.launch
    assert found is not None
    # Not needed by kernels that launch themselves.
    if given.style == "triton":
        from opsmith.spec.launch import parse_launch

        return parse_launch(where, found.grid, found.configs, found.constants)
    if given.style == "cute":
        from opsmith.spec.launch import parse_constants

        return parse_constants(where, found.configs, found.constants)
    from opsmith.spec.block_launch import parse_block_launch

    return parse_block_launch(where, found.grid, found.block, found.shared, found.configs, found.constants)
