"""Imports a kernel's file and compiles what is asked for with CuTe DSL: https://docs.nvidia.com/cutlass."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Collection
from typing import Any

from .cute_errors import cute_error
from .host_object import adapt, undefined
from .hosted import HostedImage
from .importing import error_at_line, import_file, imported_files
from .producer import FailureError, Order, Produced

__all__ = ["produce"]

# For any processor of its kind: CuTe DSL's own choice is for the one that it runs on.
_TARGETS = {
    "x86_64": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64",
    "aarch64": "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic",
}
# Bytes that the address of a tensor's data is a multiple of; the binding sees to that (include/opsmith/layout.h).
_ALIGNMENT = 16

# What host functions may call: ours (include/opsmith/hosted.h), as CuTe DSL names them, and a few of C's.
_OFFERED = {
    "printf": "opsmith_hosted_printf",
    **{
        f"_{name}": f"opsmith_hosted_{name}"
        for name in (
            "cuKernelGetAttribute",
            "cuTensorMapEncodeTiled",
            "cudaDeviceGetAttribute",
            "cudaFuncSetAttribute",
            "cudaGetDevice",
            "cudaKernelSetAttributeForDevice",
            "cudaLaunchKernelEx",
            "cudaLibraryGetKernel",
            "cudaLibraryLoadData",
        )
    },
}
_OF_C = {"free", "malloc", "memcpy", "memmove", "memset"}


def produce(order: Order) -> Produced:
    """Return the images of an order; raises FailureError for a kernel that cannot be imported or compiled."""
    request = order.request
    _import_cute(order)
    before = frozenset(sys.modules)
    try:
        function = getattr(import_file(order.kernel, request["module"]), request["function"])
    except Exception as error:
        raise FailureError(error_at_line(error, _files(order, before))) from None
    images: list[HostedImage] = []
    for variant in request["kernels"]:
        for image in order.images:
            prefix = f"opsmith_cute_{request['operator']}_{len(images)}"
            try:
                data = _compile(function, variant["arguments"], image.partition(":")[2], prefix)
            except Exception as error:
                where = cute_error(error, _files(order, before))
                raise FailureError(f"{where}\n{_describe(order, variant['arguments'], image)}") from None
            arch = image.partition(":")[2]
            images.append(HostedImage(int(arch.rstrip("af")), arch.endswith("a"), prefix, data))
    return Produced([], list(_files(order, before)), images)


def _files(order: Order, before: Collection[str]) -> tuple[str, ...]:
    """Return the files that decide what is compiled, the kernel's first: those that its import has run."""
    kernel = str(order.kernel)
    return (kernel, *sorted(imported_files(before) - {kernel}))


def _import_cute(order: Order) -> None:
    """Import CuTe DSL as it is without the user's settings: they are not part of what a build depends on."""
    for name in list(os.environ):
        if name.startswith("CUTE_DSL_"):
            del os.environ[name]
    # It asks the driver for a GPU's architecture where none is named; each compilation names its own.
    os.environ["CUTE_DSL_ARCH"] = f"sm_{order.images[0].partition(':')[2]}"
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
    warnings.simplefilter("ignore")
    import cutlass.cute  # noqa: F401


def _compile(function: Any, arguments: dict[str, dict[str, Any]], arch: str, prefix: str) -> bytes:
    """Return the object of one variant: the machine code and the function that launches it, with our names."""
    from cutlass import cute

    target = _TARGETS.get(platform.machine())
    if target is None:
        raise RuntimeError(f"CuTe DSL compiles for {' and '.join(_TARGETS)}, and this machine is {platform.machine()}")
    # By position: `options` may be a parameter's name, too.
    given = [_argument(argument) for argument in arguments.values()]
    compiled = cute.compile(function, *given, options=f"--gpu-arch sm_{arch} --host-target '{target}'")
    data = compiled.dump_to_object(prefix)
    if missing := sorted({*undefined(data)} - {*_OFFERED} - _OF_C):
        raise RuntimeError(
            f"the function that launches calls {', '.join(missing)}, of CuTe DSL's own library, which a library of "
            "opsmith's does not load"
        )
    names = {
        f"_mlir_{prefix}_cuda_init": f"{prefix}_init",
        f"_mlir_{prefix}_cuda_load_to_device": f"{prefix}_load",
        f"_mlir_{prefix}__mlir_ciface_{compiled.function_name}": f"{prefix}_call",
    }
    return adapt(data, {**_OFFERED, **names})


def _argument(argument: dict[str, Any]) -> Any:
    """Return what stands for a parameter when it is compiled: a tensor without data, a number of a type, a constant."""
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

    if "constant" in argument:
        return argument["constant"]
    if "stream" in argument:
        return make_fake_stream()
    if "number" in argument:
        return getattr(cutlass, argument["number"])(0)
    rank = argument["rank"]
    # CuTe has no tensors of rank 0: those have one element.
    sizes = tuple(cute.sym_int64() for _ in range(rank)) or (1,)
    strides = (*(cute.sym_int64() for _ in range(rank - 1)), 1)
    return make_fake_tensor(getattr(cutlass, argument["tensor"]), sizes, strides, assumed_align=_ALIGNMENT)


def _describe(order: Order, arguments: dict[str, dict[str, Any]], image: str) -> str:
    """Return which variant a message is of."""
    words = [f"sm_{image.partition(':')[2]}"]
    words += [f"{name}: {given['tensor']}" for name, given in arguments.items() if "tensor" in given]
    words += [f"{name}={given['constant']!r}" for name, given in arguments.items() if "constant" in given]
    return f"{order.kernel}:{order.request['line']}: note: compiled for {', '.join(words)}"
