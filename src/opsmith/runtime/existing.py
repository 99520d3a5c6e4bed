"""How existing C++ and CUDA sources come into a process: `load` and `load_inline` of torch.utils.cpp_extension.

The names and the meaning of the arguments are PyTorch's, so that a project switches by an import. What differs: a build
is optimised (-O3), is found again by its content and never by a time stamp, and is kept in opsmith's store, so that an
edited header, another torch or another flag gives a new binary and nothing else does.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shlex
import threading
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opsmith.errors import ArgumentError, ArgumentTypeError, LoadError, ToolchainError
from opsmith.runtime.registrations import find_clash, find_registrations
from opsmith.spec.extension import Source
from opsmith.store import Artifact, Store, default_root

__all__ = ["import_library", "load", "load_inline"]

Texts = str | Iterable[str]
Paths = str | PathLike[str] | Iterable[str | PathLike[str]]

# Arguments of torch.utils.cpp_extension that opsmith does not serve yet: the values that ask for nothing, and why
# others are refused.
_LATER: dict[str, tuple[tuple[Any, ...], str]] = {
    "extra_sycl_cflags": ((None, [], ()), "SYCL sources are not built yet"),
    "sycl_sources": ((None, [], (), ""), "SYCL sources are not built yet"),
    "with_sycl": ((None, False), "SYCL sources are not built yet"),
    "is_standalone": ((False,), "programs are not built yet, only libraries"),
    "keep_intermediates": ((True, False), ""),
    "use_pch": ((False, True), ""),
}

# One load at a time: two threads must not build, or define operators from, the same sources at once.
_lock = threading.RLock()
_modules: dict[Path, ModuleType] = {}


def load(
    name: str,
    sources: Paths,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Paths | None = None,
    build_directory: str | PathLike[str] | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    is_python_module: bool = True,
    **later: Any,
) -> Any:
    """Build C++ and CUDA files into a library and load it, or only load it where it was built before.

    A pybind11 module (`PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`) is returned. With `is_python_module=False` the
    library is loaded for what it registers (`TORCH_LIBRARY`), and its path is returned. The same call again gives the
    same module; an edited source, header or flag gives a new one, in the same process too.

    name                 the module's name; TORCH_EXTENSION_NAME in C++
    sources              .cpp, .cc, .cxx, .c++, .c, .cu files; .hip files for ROCm
    extra_cflags         for the C++ compiler; -O3 comes first, so -O0 here wins. One text may hold several flags and is
                         split as a shell does; so are the next two
    extra_cuda_cflags    for nvcc; it also has torch's own flags for CUDA sources
    extra_ldflags        for the linker
    extra_include_paths  folders for #include
    build_directory      a store of its own for what is built; default: opsmith's store
    verbose              show every command on stderr
    with_cuda            True: CUDA's headers and libraries for C++ files that use them; default: where there is a .cu

    PyTorch's `keep_intermediates` and `use_pch` are accepted and change nothing. Its SYCL arguments and `is_standalone`
    raise ArgumentError: they come with the full drop-in. No argument is ever changed.

    Raises ArgumentError, CompileError, ToolchainError or StoreError; LoadError where the library needs a symbol that
    nothing has, or would define operators that PyTorch has already (which would end the process).
    """
    from opsmith.build.existing import file_sources

    _refuse_later(later)
    files = [Path(file) for file in _paths(sources, "sources")]
    return _load(
        name,
        file_sources(files),
        [extra_cflags, extra_cuda_cflags, extra_ldflags],
        extra_include_paths,
        build_directory,
        verbose=verbose,
        with_cuda=with_cuda,
        is_python_module=is_python_module,
    )


def load_inline(
    name: str,
    cpp_sources: Texts,
    cuda_sources: Texts | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Paths | None = None,
    build_directory: str | PathLike[str] | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    no_implicit_headers: bool = False,
    **later: Any,
) -> Any:
    """Build C++ and CUDA texts as `load` builds files.

    The C++ texts become one file behind `#include <torch/extension.h>`, the CUDA texts another behind torch/types.h and
    the CUDA runtime; `no_implicit_headers` leaves those out. `functions` names the C++ functions that Python shall see
    (or maps each to its doc text) and writes the PYBIND11_MODULE for them; without it the texts bring their own, or a
    TORCH_LIBRARY. `with_pytorch_error_handling` turns C++ exceptions into torch's Python ones. A compiler's message
    names the argument and the line in it, such as `cpp_sources[0]:3`.

    All else is as for `load`.
    """
    from opsmith.build.inline import inline_sources

    _refuse_later(later)
    inline = inline_sources(
        _texts(cpp_sources, "cpp_sources"),
        _texts(cuda_sources, "cuda_sources"),
        _documented(functions),
        translate_errors=with_pytorch_error_handling,
        implicit_headers=not no_implicit_headers,
    )
    return _load(
        name,
        inline,
        [extra_cflags, extra_cuda_cflags, extra_ldflags],
        extra_include_paths,
        build_directory,
        verbose=verbose,
        with_cuda=with_cuda,
        is_python_module=is_python_module,
    )


def import_library(name: str, library: Path) -> ModuleType:
    """Import an extension module from its file; the same file always gives the same module. Raises LoadError."""
    with _lock:
        if (module := _modules.get(library)) is not None:
            return module
        # Not into sys.modules: `name` is the caller's choice, and may be that of a module which others import.
        loader = importlib.machinery.ExtensionFileLoader(name, str(library))
        spec = importlib.util.spec_from_file_location(name, library, loader=loader)
        assert spec is not None
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError as error:
            raise LoadError(_explain_load(name, library, str(error))) from error
        _modules[library] = module
        return module


def _load(
    name: str,
    sources: tuple[Source, ...],
    flags: list[Sequence[str] | None],
    include_paths: Paths | None,
    build_directory: str | PathLike[str] | None,
    *,
    verbose: bool,
    with_cuda: bool | None,
    is_python_module: bool,
) -> Any:
    from opsmith.build.announce import announcer
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.existing import assemble_sources, prepare_existing
    from opsmith.toolchain import find_python_headers

    cxx_flags, gpu_flags, link_flags = map(_split, flags)
    suffix = find_python_headers().extension_suffix if is_python_module else ".so"
    extension = assemble_sources(
        name,
        sources,
        library=f"{name.rpartition('.')[2]}{suffix}",
        include_dirs=[] if include_paths is None else _paths(include_paths, "extra_include_paths"),
        cxx_flags=cxx_flags,
        gpu_flags=gpu_flags,
        link_flags=link_flags,
    )
    if extension.needs_gpu_compiler or with_cuda:
        _check_torch_has_gpu(name)
    store = Store(default_root() if build_directory is None else Path(build_directory).expanduser().absolute())
    with _lock:
        prepared = prepare_existing(extension, with_gpu=with_cuda)
        watcher = announcer(name, verbose=verbose)
        artifact = obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, store, watcher=watcher)
        return _bring_in(extension.name, artifact, sources, is_python_module=is_python_module)


def _bring_in(name: str, artifact: Artifact, sources: tuple[Source, ...], *, is_python_module: bool) -> Any:
    library = artifact.library
    if library not in _modules and str(library) not in torch.ops.loaded_libraries:
        _refuse_clash(name, sources)
    if is_python_module:
        return import_library(name, library)
    try:
        torch.ops.load_library(str(library))
    except OSError as error:
        # torch's own exception names the file only; the loader's words are in its cause.
        raise LoadError(_explain_load(name, library, str(error.__cause__ or error))) from error
    return str(library)


def _refuse_clash(name: str, sources: tuple[Source, ...]) -> None:
    """Raise LoadError where the library would define what PyTorch has: it would abort the process."""
    texts = [source.text or "" for source in sources]
    texts += [user.read_text(encoding="utf-8", errors="replace") for source in sources for user in source.users]
    if (clash := find_clash(find_registrations(texts, name))) is not None:
        raise LoadError(
            f"{name} would define {clash} in torch.ops, which another library, perhaps an earlier version of these "
            "sources, has defined in this process. C++ operators cannot be replaced: start a new process, or use "
            "another namespace"
        )


def _check_torch_has_gpu(name: str) -> None:
    if torch.version.cuda is None and torch.version.hip is None:
        raise ToolchainError(
            f"{name} has CUDA sources, but torch {torch.__version__} is built without CUDA: it can neither run them "
            "nor has all the headers they may include. Install a CUDA build as https://pytorch.org/get-started/locally "
            "says"
        )


def _explain_load(name: str, library: Path, message: str) -> str:
    if (undefined := re.search(r"undefined symbol: (\w+)", message)) is not None:
        symbol = torch._C._demangle(undefined[1])
        return (
            f"{name} cannot be loaded: nothing defines {symbol}. Add the source that defines it, or the library with "
            f"its flag in extra_ldflags ({library})"
        )
    if "is already registered" in message:
        return (
            f"{name} cannot be loaded: {message}. An earlier version of it has given Python the same C++ class; "
            "declare it with py::module_local(), or start a new process"
        )
    return f"{name} cannot be loaded: {message}"


def _refuse_later(arguments: Mapping[str, Any]) -> None:
    for argument, value in arguments.items():
        if argument not in _LATER:
            raise ArgumentTypeError(f"there is no argument {argument}")
        harmless, reason = _LATER[argument]
        if value not in harmless:
            raise ArgumentError(f"{argument}={value!r}: {reason}; use torch.utils.cpp_extension for that")


def _split(flags: Sequence[str] | None) -> list[str]:
    if isinstance(flags, str):
        return shlex.split(flags)
    return [word for text in flags or () for word in shlex.split(text)]


def _texts(value: Texts | None, argument: str) -> list[str]:
    texts = [value] if isinstance(value, str) else list(value or ())
    if not all(isinstance(text, str) for text in texts):
        raise ArgumentTypeError(f"{argument} must be a text or a list of texts")
    return texts


def _paths(value: Paths, argument: str) -> list[str]:
    try:
        return [fspath(value)] if isinstance(value, str | PathLike) else [fspath(path) for path in value]
    except TypeError:
        raise ArgumentTypeError(f"{argument} must be a path or a list of paths") from None


def _documented(functions: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    if functions is None:
        return {}
    if isinstance(functions, Mapping):
        return {str(name): str(doc) for name, doc in functions.items()}
    names = [functions] if isinstance(functions, str) else functions
    return {name: name for name in names}
