"""Writes the part of a candidate that compiles C++ or CUDA with `load_inline`, without PyTorch's headers, in seconds.

A candidate gets pointers as numbers: `native.launch(x.data_ptr(), ...)`.
"""

from __future__ import annotations

import re
from textwrap import dedent

__all__ = ["STREAM", "cpp", "cuda", "cuda_text"]

# How a candidate names PyTorch's current stream.
STREAM = "torch.cuda.current_stream().cuda_stream"

_HEADER = "#include <cstdint>"
_NAME = re.compile(r"(\w+)\(")


def cpp(source: str, *declarations: str, flags: str = "-O2") -> str:
    """Return Python that compiles C++ and binds the functions of these declarations as `native`."""
    return _loaded(f"{_HEADER}\n#include <pybind11/pybind11.h>\n{dedent(source)}\n{_bound(declarations)}", "", flags)


def cuda(source: str, *declarations: str) -> str:
    """Return Python that compiles CUDA, and C++ that binds the functions of these declarations as `native`."""
    declared = "\n".join(f"{declaration};" for declaration in declarations)
    binding = f"{_HEADER}\n#include <pybind11/pybind11.h>\n{declared}\n{_bound(declarations)}"
    return _loaded(binding, cuda_text(source), "-O2")


def cuda_text(source: str) -> str:
    """Return the CUDA source as nvcc gets it."""
    return f"{_HEADER}\n#include <cuda_runtime.h>\n{dedent(source)}"


def _bound(declarations: tuple[str, ...]) -> str:
    names = [found[1] for declaration in declarations if (found := _NAME.search(declaration))]
    lines = "".join(f'  m.def("{name}", &{name});\n' for name in names)
    return f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{lines}}}"


def _loaded(cpp_source: str, cuda_source: str, flags: str) -> str:
    cuda_line = f'    cuda_sources=r"""{cuda_source}""",\n' if cuda_source else ""
    return (
        "import torch\n"
        "from torch.utils.cpp_extension import load_inline\n\n"
        "native = load_inline(\n"
        '    "native",\n'
        f'    cpp_sources=r"""{cpp_source}""",\n{cuda_line}'
        f'    extra_cflags=["{flags}"],\n'
        "    no_implicit_headers=True,\n"
        ")\n\n"
    )
