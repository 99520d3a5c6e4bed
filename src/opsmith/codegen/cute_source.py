"""Reads a CuTe DSL kernel's file: the `@cute.jit` function that a definition names."""

from __future__ import annotations

from opsmith.errors import CompileError, SignatureError
from opsmith.spec.cute import cute_prototype
from opsmith.spec.cute_function import CuteFunction, find_cute_function
from opsmith.spec.definition import Definition

__all__ = ["read_cute_function"]


def read_cute_function(definition: Definition) -> CuteFunction:
    """Return the host function that is a definition's kernel.

    Raises CompileError for a file that is not Python, and SignatureError for one without such a function.
    """
    kernel = definition.kernels["cuda"]
    file = kernel.sources[0]
    try:
        function = find_cute_function(file.read_text(encoding="utf-8"), kernel.entry)
    except (SyntaxError, UnicodeDecodeError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise CompileError(f"{file}{line}: the kernel's file is not Python: {error}") from None
    if function is None or not function.is_jit:
        what = "has no function" if function is None else "does not decorate with @cute.jit the function"
        raise SignatureError(
            f"{file}: it {what} `{kernel.entry}`, which {definition.name} ({definition.location}) names as its kernel\n\n"
            f"    the definition offers  {cute_prototype(definition)}"
        )
    return function
