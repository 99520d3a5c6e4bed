"""Reads a CUDA kernel's file: the `__global__` function that a definition names."""

from __future__ import annotations

from opsmith.errors import CompileError, SignatureError
from opsmith.spec.cuda import cuda_prototype
from opsmith.spec.cuda_function import CudaFunction, find_cuda_function
from opsmith.spec.definition import Definition

__all__ = ["read_cuda_function"]


def read_cuda_function(definition: Definition) -> CudaFunction:
    """Return the function that is a definition's kernel.

    Raises CompileError for a file that is not text, and SignatureError for one without such a function.
    """
    kernel = definition.kernels["cuda"]
    file = kernel.sources[0]
    try:
        function = find_cuda_function(file.read_text(encoding="utf-8"), kernel.entry)
    except UnicodeDecodeError as error:
        raise CompileError(f"{file}: the kernel's file is not text in UTF-8: {error}") from None
    if function is None:
        raise SignatureError(
            f"{file}: it has no function `__global__ void {kernel.entry}(...)`, which {definition.name} "
            f"({definition.location}) names as its kernel\n\n"
            f"    the definition offers  {cuda_prototype(definition)}"
        )
    return function
