"""Writes sources that are given as text to files, with what load_inline adds to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from opsmith.errors import ArgumentError
from opsmith.spec.extension import TEXT_MARK, Source

__all__ = ["inline_sources", "string_literal"]

_CXX_HEADERS = ("torch/extension.h",)
_CUDA_HEADERS = ("torch/types.h", "cuda.h", "cuda_runtime.h")
_SYCL_HEADERS = ("torch/types.h", "sycl/sycl.hpp")

_QUALIFIED = re.compile(r"(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*", re.ASCII)


def inline_sources(
    cpp_sources: Sequence[str],
    cuda_sources: Sequence[str],
    functions: Mapping[str, str],
    *,
    sycl_sources: Sequence[str] = (),
    translate_errors: bool = True,
    implicit_headers: bool = True,
    gil_not_used: bool = False,
) -> tuple[Source, ...]:
    """Return main.cpp and, where there are such texts, cuda.cu and sycl.sycl.

    `functions` maps what Python should see to its doc text. `translate_errors` lets C++ exceptions arrive as torch's
    Python exceptions, and `gil_not_used` declares that a Python without the GIL may keep it off. Raises ArgumentError for
    a name that a C++ function cannot have.
    """
    sources = []
    if cpp_sources or functions:
        text = _file("cpp_sources", cpp_sources, _CXX_HEADERS if implicit_headers else ())
        if functions:
            text += _bindings(functions, translate_errors=translate_errors, gil_not_used=gil_not_used)
        sources.append(Source("main.cpp", "cxx", "full", text=text))
    if cuda_sources:
        text = _file("cuda_sources", cuda_sources, _CUDA_HEADERS if implicit_headers else ())
        sources.append(Source("cuda.cu", "gpu", "full", text=text))
    if sycl_sources:
        text = _file("sycl_sources", sycl_sources, _SYCL_HEADERS if implicit_headers else ())
        sources.append(Source("sycl.sycl", "sycl", "full", text=text))
    return tuple(sources)


def string_literal(text: str) -> str:
    """Return a C++ string literal of a text: quotes, newlines and everything beyond ASCII as three-digit octals.

    Octals, because a hexadecimal escape has no end: in "\\x41B" the B belongs to it.
    """
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _file(argument: str, texts: Sequence[str], headers: Sequence[str]) -> str:
    lines = [f"#include <{header}>" for header in headers]
    for index, text in enumerate(texts):
        lines += [f"{TEXT_MARK}{argument}[{index}]", text]
    return "\n".join([*lines, ""])


def _bindings(functions: Mapping[str, str], *, translate_errors: bool, gil_not_used: bool) -> str:
    options = ", pybind11::mod_gil_not_used()" if gil_not_used else ""
    lines = [f"{TEXT_MARK}functions", f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m{options}) {{"]
    for name, doc in functions.items():
        if not _QUALIFIED.fullmatch(name):
            raise ArgumentError(f"functions names {name!r}, which is not the name of a C++ function")
        python_name = name.rpartition("::")[2]
        function = f"torch::wrap_pybind_function({name})" if translate_errors else f"&{name}"
        lines.append(f"  m.def({string_literal(python_name)}, {function}, {string_literal(doc)});")
    return "\n".join([*lines, "}", ""])
