"""Builds and loads at once: `load` and `load_inline`, with the arguments of torch.utils.cpp_extension in its order.

What differs: a build is optimised (-O3), is found again by its content and never by a time stamp, and is kept in
opsmith's store, so that an edited header, another torch or another flag gives a new binary and nothing else does.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opsmith.cpp_extension.answer import Asked, Call, answer
from opsmith.cpp_extension.arguments import Flags, Functions, Paths, Texts, as_documented, as_paths, as_texts
from opsmith.errors import ArgumentValueError

if TYPE_CHECKING:
    from opsmith.spec.extension import Source

__all__ = ["load", "load_inline", "remove_extension_h_precompiler_headers"]


def load(
    name: str,
    sources: Paths,
    extra_cflags: Flags = None,
    extra_cuda_cflags: Flags = None,
    extra_sycl_cflags: Flags = None,
    extra_ldflags: Flags = None,
    extra_include_paths: Paths | None = None,
    build_directory: str | PathLike[str] | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Build C++ and CUDA files into a library and load it, or just load it if it was built before.

    A pybind11 module (`PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`) is returned. With `is_python_module=False` the
    library is loaded for what it registers (`TORCH_LIBRARY`), and its path is returned. The same call again gives the
    same module; an edited source, header or flag gives a new one, in the same process too. No argument is ever changed.

    name                 the module's name; TORCH_EXTENSION_NAME in C++
    sources              .cpp, .cc, .cxx, .c++, .c, .cu, .sycl files; .hip files for ROCm
    extra_cflags         for the C++ compiler; -O3 comes first, so -O0 here wins. One text may hold several flags and is
                         split as a shell does; so are the next three
    extra_cuda_cflags    for nvcc; it also has torch's own flags for CUDA sources
    extra_sycl_cflags    for icpx
    extra_ldflags        for the linker; $ORIGIN stays as it is
    extra_include_paths  folders for #include
    build_directory      a store of its own for what is built, made where it is missing; `<name>.so` in it is the newest
                         library. Default: opsmith's store
    verbose              show every command on stderr
    with_cuda            True: CUDA's headers and libraries for C++ files that use them; default: where there is a .cu
    with_sycl            the same for SYCL
    is_standalone        build a program instead, with `is_python_module=False`, and return its path
    keep_intermediates   decides nothing: what lies between sources and library is never kept

    An edited library of operators takes the place of its earlier version in torch.ops, and who holds an operator from
    before calls the new one. An operator's C++ signature cannot change in one process.

    Raises ArgumentError, CompileError, ToolchainError or StoreError; LoadError where the library needs a symbol that
    nothing has, or defines operators that another library has defined (which would end the process).
    """
    return _jit_compile(
        name,
        sources,
        extra_cflags,
        extra_cuda_cflags,
        extra_sycl_cflags,
        extra_ldflags,
        extra_include_paths,
        build_directory,
        verbose,
        with_cuda,
        with_sycl,
        is_python_module,
        is_standalone,
        keep_intermediates,
    )


def load_inline(
    name: str,
    cpp_sources: Texts,
    cuda_sources: Texts | None = None,
    sycl_sources: Texts | None = None,
    functions: Functions = None,
    extra_cflags: Flags = None,
    extra_cuda_cflags: Flags = None,
    extra_sycl_cflags: Flags = None,
    extra_ldflags: Flags = None,
    extra_include_paths: Paths | None = None,
    build_directory: str | PathLike[str] | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    gil_not_used: bool = False,
) -> Any:
    """Build C++, CUDA and SYCL texts as `load` builds files.

    The C++ texts become one file behind `#include <torch/extension.h>`, the CUDA texts another behind torch/types.h and
    the CUDA runtime; `no_implicit_headers` leaves those out. `functions` names the C++ functions that Python should see
    (or maps each to its doc text) and writes the PYBIND11_MODULE for them; without it the texts bring their own, or a
    TORCH_LIBRARY. `with_pytorch_error_handling` turns C++ exceptions into torch's Python ones, and `gil_not_used` declares
    that the functions need no GIL. A compiler's message names the argument and the line in it, such as
    `cpp_sources[0]:3`.

    `use_pch` decides nothing: whether a precompiled header serves is opsmith's to find out, and it never lies in
    torch's folder. All else is as for `load`.
    """
    texts = {
        "cpp_sources": as_texts(cpp_sources, "cpp_sources"),
        "cuda_sources": as_texts(cuda_sources, "cuda_sources"),
        "sycl_sources": as_texts(sycl_sources, "sycl_sources"),
    }
    documented = as_documented(functions)
    options = (with_pytorch_error_handling, no_implicit_headers, gil_not_used)

    def sources() -> tuple[Source, ...]:
        from opsmith.build.inline import inline_sources

        return inline_sources(
            **texts,
            functions=documented,
            translate_errors=with_pytorch_error_handling,
            implicit_headers=not no_implicit_headers,
            gil_not_used=gil_not_used,
        )

    return answer(
        Call.of(
            name,
            "module" if is_python_module else "library",
            (extra_cflags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags),
            extra_include_paths,
            build_directory,
            with_cuda,
            with_sycl,
        ),
        Asked(
            ("texts", repr(texts), repr(documented), repr(options)),
            texts=lambda: (text for many in texts.values() for text in many),
            has_gpu=bool(texts["cuda_sources"]),
            sources=sources,
        ),
        verbose=verbose,
    )


def remove_extension_h_precompiler_headers() -> None:
    """Remove the precompiled header that PyTorch's `use_pch` leaves in torch's folder, where there is one.

    opsmith neither writes nor reads it. Raises OSError if the folder cannot be written.
    """
    from opsmith.toolchain import find_torch

    for suffix in ("gch", "sign"):
        (find_torch().root / "include" / "torch" / f"extension.h.{suffix}").unlink(missing_ok=True)


def _jit_compile(
    name: str,
    sources: Paths,
    extra_cflags: Flags,
    extra_cuda_cflags: Flags,
    extra_sycl_cflags: Flags,
    extra_ldflags: Flags,
    extra_include_paths: Paths | None,
    build_directory: str | PathLike[str] | None,
    verbose: bool,
    with_cuda: bool | None,
    with_sycl: bool | None,
    is_python_module: bool,
    is_standalone: bool,
    keep_intermediates: bool = True,
) -> Any:
    """Do what `load` does; some projects call it by this name."""
    if is_python_module and is_standalone:
        raise ArgumentValueError(
            f"{name}: is_standalone makes a program, not a Python module; pass is_python_module=False as well"
        )
    files = tuple(Path(file).absolute() for file in as_paths(sources, "sources"))

    def found() -> tuple[Source, ...]:
        from opsmith.build.existing import file_sources

        return file_sources(files)

    return answer(
        Call.of(
            name,
            "module" if is_python_module else "program" if is_standalone else "library",
            (extra_cflags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags),
            extra_include_paths,
            build_directory,
            with_cuda,
            with_sycl,
        ),
        Asked(
            ("files", *map(str, files)),
            files=files,
            texts=lambda: (file.read_text(encoding="utf-8", errors="replace") for file in files),
            has_gpu=any(file.suffix.lower() in {".cu", ".cuh", ".hip"} for file in files),
            sources=found,
        ),
        verbose=verbose,
    )


def _import_module_from_library(
    module_name: str, path: str | PathLike[str], is_python_module: bool
) -> ModuleType | str:
    """Load `<path>/<module_name>.so`: import it as a module and return that, or return its path."""
    from opsmith.runtime.existing import bring_in

    library = Path(path, f"{module_name}.so").absolute()
    loaded: ModuleType | str = bring_in(module_name, library, (), is_python_module=is_python_module)
    return loaded
