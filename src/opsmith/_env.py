"""Lists the environment variables that opsmith reads, and reads them.

A variable is one row. What keys cover, what notes of earlier builds compare, what `opsmith doctor` checks and
docs/environment.md follow from the rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from opsmith.errors import ArgumentError

__all__ = ["VARIABLES", "Kind", "Mode", "Variable", "overridden", "read", "read_mode", "set_default", "unknown_names"]

Kind = Literal[
    "folder",
    "folder of ROCm",
    "folders",
    "header folders",
    "folder or URL",
    "file",
    "file or 1",
    "size",
    "accounts",
    "CUDA architectures",
    "ROCm architectures",
    "names",
    "auto, wait or off",
    "off",
    "count",
    "switch",
    "command",
    "compiler",
    "flags",
    "path prefix",
]

Mode = Literal["auto", "wait", "off"]


class Variable(NamedTuple):
    """One environment variable.

    `kind` is what its value is; `opsmith doctor` checks values by it. `role` is its part in finding a build:

    * "compiler": compilers read it themselves, so its value is an input of every key.
    * "plan": it enters the key through the plan that follows from it. A change invalidates the notes of earlier processes.
    * "editor": it names a folder for files that loading writes, and does not enter the key. A change invalidates the
      notes too, because a load by a note writes nothing; the library still comes from the store.
    * "none": it decides where, when or how loudly something is built, but not what.
    """

    name: str
    kind: Kind
    help: str
    role: Literal["compiler", "plan", "editor", "none"] = "plan"


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "OPSMITH_CACHE_DIR", "folder", "folder of the store; default: opsmith in the user's cache folder", role="none"
    ),
    Variable(
        "OPSMITH_CACHE_SIZE",
        "size",
        "how large the store may grow before the least recently used artefacts are removed; default: 5 GB",
        role="none",
    ),
    Variable(
        "OPSMITH_CACHE_TRUST",
        "accounts",
        "who may write to the store besides you and root: user:NAME, group:NAME, everyone; default: nobody",
        role="none",
    ),
    Variable(
        "OPSMITH_STORE",
        "folder or URL",
        "folder or URL (s3://...) of a shared store; only what a trusted key signed is loaded",
        role="none",
    ),
    Variable("OPSMITH_SIGNING_KEY", "file", "file of the key that signs what goes to the shared store", role="none"),
    Variable(
        "OPSMITH_CONFIG_DIR",
        "folder",
        "folder of the keys; default: opsmith in the user's configuration folder",
        role="none",
    ),
    Variable(
        "OPSMITH_CUDA_ARCHS", "CUDA architectures", "CUDA architectures to build for, such as '9.0' or '8.0;9.0+PTX'"
    ),
    Variable("OPSMITH_ROCM_ARCHS", "ROCm architectures", "ROCm architectures to build for, such as 'gfx90a;gfx942'"),
    Variable(
        "OPSMITH_BRIDGE",
        "auto, wait or off",
        "auto: build the bridge in the background if the store does not have it; wait: build it now; off: do not use it",
        role="none",
    ),
    Variable(
        "OPSMITH_PCH",
        "auto, wait or off",
        "auto: precompile torch's headers in the background for the next build; wait: do it now; off: do not use them",
        role="none",
    ),
    Variable(
        "OPSMITH_SLIM_HEADERS", "off", "off: compile sources that include torch/extension.h with all of it", role="none"
    ),
    Variable(
        "OPSMITH_JOBS",
        "count",
        "how many compilers run at once; default: as many as cores and free memory allow",
        role="none",
    ),
    Variable("OPSMITH_VERBOSE", "switch", "1: show every command of a build", role="none"),
    Variable("OPSMITH_QUIET", "switch", "1: no message while an operator is built on its first call", role="none"),
    Variable(
        "OPSMITH_RUN_REPORT",
        "file or 1",
        "under `opsmith run`: 1 reports on stderr which processes were redirected; anything else is a file to report to",
        role="none",
    ),
    Variable(
        "OPSMITH_RUN_PATH",
        "folders",
        "set by `opsmith run`: where processes without opsmith find it; not to be set by hand",
        role="none",
    ),
    Variable(
        "OPSMITH_COMPILE_COMMANDS",
        "folder",
        "a folder: each build merges what clangd needs into compile_commands.json there",
        role="editor",
    ),
    Variable("OPSMITH_TYPINGS", "folder", "a folder: each build merges type stubs for torch.ops there", role="editor"),
    Variable(
        "CXX", "command", "host C++ compiler, with a launcher or arguments if need be; default: c++, g++ or clang++"
    ),
    Variable("CUDA_HOME", "folder", "root of the CUDA toolkit; CUDA_PATH is read too"),
    Variable("CUDA_PATH", "folder", "root of the CUDA toolkit, after CUDA_HOME"),
    Variable("CONDA_PREFIX", "folder", "the active conda environment; nvcc is found in it even if it is not on PATH"),
    Variable("NVCC_CCBIN", "compiler", "host compiler for nvcc, or its folder; default: the C++ compiler above"),
    Variable("ROCM_PATH", "folder of ROCm", "root of the ROCm toolkit; ROCM_HOME is read too"),
    Variable("ROCM_HOME", "folder of ROCm", "root of the ROCm toolkit, after ROCM_PATH"),
    Variable("TORCH_CUDA_ARCH_LIST", "CUDA architectures", "as in PyTorch; read where OPSMITH_CUDA_ARCHS is not set"),
    Variable("PYTORCH_ROCM_ARCH", "ROCm architectures", "as in PyTorch; read where OPSMITH_ROCM_ARCHS is not set"),
    Variable("MAX_JOBS", "count", "as in PyTorch; read where OPSMITH_JOBS is not set", role="none"),
    Variable("OPSMITH_SKIP_CUDA_CHECK", "switch", "1: build with an nvcc of another CUDA major version than torch's"),
    Variable("PYTORCH_NVCC", "command", "command to call instead of nvcc for existing sources, such as 'ccache nvcc'"),
    Variable(
        "CC", "command", "C compiler of setuptools; for existing sources also nvcc's host compiler, after NVCC_CCBIN"
    ),
    Variable("CFLAGS", "flags", "more flags for C and C++ sources that setuptools builds"),
    Variable("CXXFLAGS", "flags", "more flags for C++ sources that setuptools builds"),
    Variable("CPPFLAGS", "flags", "more preprocessor flags for sources that setuptools builds"),
    Variable("LDFLAGS", "flags", "more flags for the linker where setuptools builds"),
    Variable("NVCC_PREPEND_FLAGS", "flags", "flags that nvcc adds in front by itself", role="compiler"),
    Variable("NVCC_APPEND_FLAGS", "flags", "flags that nvcc adds at the end by itself", role="compiler"),
    Variable("HIPCC_COMPILE_FLAGS_APPEND", "flags", "flags that hipcc adds by itself", role="compiler"),
    Variable("CPATH", "header folders", "folders in which compilers look for headers by themselves", role="compiler"),
    Variable("C_INCLUDE_PATH", "header folders", "as CPATH, for C", role="compiler"),
    Variable("CPLUS_INCLUDE_PATH", "header folders", "as CPATH, for C++", role="compiler"),
    Variable("LIBRARY_PATH", "folders", "folders in which linkers look for libraries by themselves", role="compiler"),
    Variable("COMPILER_PATH", "folders", "folders in which gcc looks for its own programs", role="compiler"),
    Variable("GCC_EXEC_PREFIX", "path prefix", "where gcc looks for its own programs and headers", role="compiler"),
    Variable("CUDA_INC_PATH", "folder", "folder of CUDA headers, beside the toolkit's"),
    Variable("CUDNN_HOME", "folder", "root of cuDNN; its include and lib64 are added; CUDNN_PATH is read too"),
    Variable("CUDNN_PATH", "folder", "root of cuDNN, after CUDNN_HOME"),
    Variable("WINDOWS_CUDA_HOME", "folder", "root of a CUDA toolkit for Windows; library_paths() names it"),
    Variable(
        "TORCH_EXTENSIONS_DIR",
        "folder",
        "folder for a store of the drop-in's builds, where OPSMITH_CACHE_DIR is not set",
    ),
    Variable("TORCH_XPU_ARCH_LIST", "names", "as in PyTorch: devices to compile SYCL sources for ahead of time"),
    Variable("TORCH_DONT_CHECK_COMPILER_ABI", "switch", "as in PyTorch: ON, 1, YES, TRUE or Y trusts every compiler"),
    Variable(
        "TORCH_NO_COMPILER_WRAPPER",
        "switch",
        "as in PyTorch: set to anything, no ccache or sccache is put before compilers",
        role="none",
    ),
    Variable(
        "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES", "switch", "as in PyTorch, where its own ninja files are written"
    ),
    Variable(
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "switch",
        "as in PyTorch; `opsmith check` sets it to 1 where it is not set, to fork processes",
        role="none",
    ),
    Variable("PATH", "folders", "where programs are looked for", role="none"),
    Variable("NO_COLOR", "switch", "set to anything: no colour in the output", role="none"),
)

_NAMES = frozenset(variable.name for variable in VARIABLES)

_MODES: tuple[Mode, ...] = ("auto", "wait", "off")


def read(name: str) -> str | None:
    """Return the value of a variable of the table, or None where it is unset or empty."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    return os.environ.get(name) or None


def read_mode(name: str) -> Mode:
    """Return the value of a variable that is auto (also where it is unset), wait or off; raises ArgumentError else."""
    value = read(name) or "auto"
    for mode in _MODES:
        if value == mode:
            return mode
    raise ArgumentError(f"{name} is {value!r}; it can be auto, wait or off")


def set_default(name: str, value: str) -> None:
    """Give a variable of the table a value in this process where it has none."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    os.environ.setdefault(name, value)


def unknown_names() -> tuple[str, ...]:
    """Return the variables that are set, start with OPSMITH_ and are not in the table: probably misspelt."""
    return tuple(sorted(name for name in os.environ if name.startswith("OPSMITH_") and name not in _NAMES))


@contextmanager
def overridden(name: str, value: str) -> Iterator[None]:
    """Give a variable of the table another value for a while, in this process and those that it starts."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
