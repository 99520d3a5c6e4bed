"""Reads a kernel's file in Python: the function that a definition names, and what the file is imported as."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from opsmith.errors import CompileError, SignatureError
from opsmith.spec.cute import cute_prototype
from opsmith.spec.cute_function import CuteFunction, find_cute_function
from opsmith.spec.definition import Definition
from opsmith.spec.triton import KernelFunction, find_function, triton_prototype

__all__ = ["kernel_module", "read_cute_function", "read_triton_function"]


class _Function(Protocol):
    @property
    def is_jit(self) -> bool: ...


_Found = TypeVar("_Found", bound=_Function)


def read_triton_function(definition: Definition) -> KernelFunction:
    """Return the `@triton.jit` function that is a definition's kernel.

    Raises CompileError for a file that is not Python, and SignatureError for one without such a function.
    """
    return _read(definition, find_function, "@triton.jit", triton_prototype)


def read_cute_function(definition: Definition) -> CuteFunction:
    """Return the `@cute.jit` host function that is a definition's kernel. Raises as `read_triton_function`."""
    return _read(definition, find_cute_function, "@cute.jit", cute_prototype)


def kernel_module(definition: Definition) -> str:
    """Return the name of the module that a kernel's file is: in the package of the definition, if it lies there."""
    file = definition.kernels["cuda"].sources[0]
    parts = Path(os.path.relpath(file.with_suffix(""), definition.root)).parts
    is_package = definition.file.name == "__init__.py"
    package = definition.module if is_package else definition.module.rpartition(".")[0]
    if os.pardir in parts or not package:
        return parts[-1]
    return ".".join([package, *parts])


def _read(
    definition: Definition,
    find: Callable[[str, str], _Found | None],
    decorator: str,
    prototype: Callable[[Definition], str],
) -> _Found:
    kernel = definition.kernels["cuda"]
    file = kernel.sources[0]
    try:
        function = find(file.read_text(encoding="utf-8"), kernel.entry)
    except (SyntaxError, UnicodeDecodeError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise CompileError(f"{file}{line}: the kernel's file is not Python: {error}") from None
    if function is None or not function.is_jit:
        what = "has no function" if function is None else f"does not decorate with {decorator} the function"
        raise SignatureError(
            f"{file}: it {what} `{kernel.entry}`, which {definition.name} ({definition.location}) names as its kernel\n\n"
            f"    the definition offers  {prototype(definition)}"
        )
    return function
