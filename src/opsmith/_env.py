"""Lists the environment variables that opsmith reads, and reads them.

A variable is one row. What keys cover, what notes of earlier builds compare, what `opsmith doctor` checks and
docs/reference/environment.md follow from the rows.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from opsmith.errors import ArgumentError

__all__ = [
    "VARIABLES",
    "Kind",
    "Mode",
    "Variable",
    "absolute_path",
    "is_known",
    "read",
    "read_mode",
    "read_path",
    "set_default",
    "unknown_names",
]

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
        "size limit of the store, beyond which the least recently used artefacts are removed; default: 5 GB",
        role="none",
    ),
    Variable(
        "OPSMITH_CACHE_TRUST",
        "accounts",
        "who may write to the store besides you and root: user:NAME, group:NAME, everyone; default: no one",
        role="none",
    ),
    Variable(
        "OPSMITH_STORE",
        "folder or URL",
        "folder or URL (s3://...) of a shared store; only artefacts signed by a trusted key are loaded",
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
        "auto: build the bridge in the background if there is none for this torch; wait: build it now; off: do not use it",
        role="none",
    ),
    Variable(
        "OPSMITH_PCH",
        "auto, wait or off",
        "auto: precompile torch's headers in the background for the next build; wait: do it now; off: do not use them",
        role="none",
    ),
    Variable(
        "OPSMITH_CRASH_NOTE",
        "off",
        "off: install no signal handlers, which name the operator that a process dies in",
        role="none",
    ),
    Variable("OPSMITH_SLIM_HEADERS", "off", "off: compile torch/extension.h in full", role="none"),
    Variable(
        "OPSMITH_JOBS",
        "count",
        "how many compilers run at once; default: as many as cores and free memory allow",
        role="none",
    ),
    Variable("OPSMITH_VERBOSE", "switch", "1: show every command of a build", role="none"),
    Variable("OPSMITH_QUIET", "switch", "1: print nothing while an operator is built on its first call", role="none"),
    Variable(
        "OPSMITH_RUN_REPORT",
        "file or 1",
        "under `opsmith run`: 1 reports on stderr which processes were redirected; any other value is a file to "
        "report to",
        role="none",
    ),
    Variable(
        "OPSMITH_RUN_PATH",
        "folders",
        "set by `opsmith run`: where processes without opsmith find it; do not set it yourself",
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
        "CXX", "command", "host C++ compiler, optionally with a launcher or arguments; default: c++, g++ or clang++"
    ),
    Variable("CUDA_HOME", "folder", "root of the CUDA toolkit; CUDA_PATH works too"),
    Variable("CUDA_PATH", "folder", "root of the CUDA toolkit, after CUDA_HOME"),
    Variable(
        "CONDA_PREFIX", "folder", "the active conda environment, in which nvcc is found even if it is not on PATH"
    ),
    Variable("NVCC_CCBIN", "compiler", "host compiler for nvcc, or its folder; default: the C++ compiler above"),
    Variable("ROCM_PATH", "folder of ROCm", "root of the ROCm toolkit; ROCM_HOME works too"),
    Variable("ROCM_HOME", "folder of ROCm", "root of the ROCm toolkit, after ROCM_PATH"),
    Variable("TORCH_CUDA_ARCH_LIST", "CUDA architectures", "as in PyTorch; used if OPSMITH_CUDA_ARCHS is not set"),
    Variable("PYTORCH_ROCM_ARCH", "ROCm architectures", "as in PyTorch; used if OPSMITH_ROCM_ARCHS is not set"),
    Variable("MAX_JOBS", "count", "as in PyTorch; used if OPSMITH_JOBS is not set", role="none"),
    Variable("OPSMITH_SKIP_CUDA_CHECK", "switch", "1: allow an nvcc whose CUDA major version differs from torch's"),
    Variable("PYTORCH_NVCC", "command", "command to run instead of nvcc for existing sources, such as 'ccache nvcc'"),
    Variable(
        "CC", "command", "C compiler of setuptools; for existing sources also nvcc's host compiler, after NVCC_CCBIN"
    ),
    Variable("CFLAGS", "flags", "extra flags for C and C++ sources built by setuptools"),
    Variable("CXXFLAGS", "flags", "extra flags for C++ sources built by setuptools"),
    Variable("CPPFLAGS", "flags", "extra preprocessor flags for sources built by setuptools"),
    Variable("LDFLAGS", "flags", "extra linker flags for setuptools builds"),
    Variable("NVCC_PREPEND_FLAGS", "flags", "flags that nvcc itself puts first", role="compiler"),
    Variable("NVCC_APPEND_FLAGS", "flags", "flags that nvcc itself puts last", role="compiler"),
    Variable("HIPCC_COMPILE_FLAGS_APPEND", "flags", "flags that hipcc itself adds", role="compiler"),
    Variable("CPATH", "header folders", "folders that compilers search for headers", role="compiler"),
    Variable("C_INCLUDE_PATH", "header folders", "as CPATH, for C", role="compiler"),
    Variable("CPLUS_INCLUDE_PATH", "header folders", "as CPATH, for C++", role="compiler"),
    Variable("LIBRARY_PATH", "folders", "folders that linkers search for libraries", role="compiler"),
    Variable("COMPILER_PATH", "folders", "folders that gcc searches for its own programs", role="compiler"),
    Variable("GCC_EXEC_PREFIX", "path prefix", "where gcc looks for its own programs and headers", role="compiler"),
    Variable("CUDA_INC_PATH", "folder", "another folder of CUDA headers"),
    Variable("CUDNN_HOME", "folder", "root of cuDNN, whose include and lib64 are added; CUDNN_PATH works too"),
    Variable("CUDNN_PATH", "folder", "root of cuDNN, after CUDNN_HOME"),
    Variable("WINDOWS_CUDA_HOME", "folder", "root of a CUDA toolkit for Windows; library_paths() returns it"),
    Variable(
        "TORCH_EXTENSIONS_DIR",
        "folder",
        "folder for the drop-in's store if OPSMITH_CACHE_DIR is not set",
    ),
    Variable(
        "TORCH_XPU_ARCH_LIST", "names", "as in PyTorch: devices for which SYCL sources are compiled ahead of time"
    ),
    Variable("TORCH_DONT_CHECK_COMPILER_ABI", "switch", "as in PyTorch: ON, 1, YES, TRUE or Y trusts every compiler"),
    Variable(
        "TORCH_NO_COMPILER_WRAPPER",
        "switch",
        "as in PyTorch: any value keeps ccache and sccache from wrapping compilers",
        role="none",
    ),
    Variable(
        "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES",
        "switch",
        "as in PyTorch, for ninja files that PyTorch itself writes",
    ),
    Variable(
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "switch",
        "as in PyTorch; `opsmith check` sets it to 1 by default, so that it can fork processes",
        role="none",
    ),
    Variable(
        "TRITON_INTERPRET",
        "switch",
        "as in Triton: 1 runs operators' Triton kernels on the CPU, through Triton's interpreter, where tensors are there",
        role="none",
    ),
    Variable("PATH", "folders", "folders that are searched for programs", role="none"),
    Variable("NO_COLOR", "switch", "any value: no colour in the output", role="none"),
)

_NAMES = frozenset(variable.name for variable in VARIABLES)

_MODES: tuple[Mode, ...] = ("auto", "wait", "off")


def read(name: str) -> str | None:
    """Return the value of a variable of the table, or None if it is unset or empty."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    return os.environ.get(name) or None


def read_path(name: str) -> Path | None:
    """Return the path that a variable of the table has, absolute and with the home for a tilde; None if it is unset.

    Raises ArgumentError if that home is not known.
    """
    value = read(name)
    return None if value is None else absolute_path(value, name)


def absolute_path(path: str | os.PathLike[str], what: str) -> Path:
    """Return a path as `read_path` does; the error says `what` it is of."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:  # of pathlib
        home = Path(path).parts[0]
        raise ArgumentError(
            f"{what} is {str(path)!r}, but {home} has no home folder on this machine. Give the whole path"
        ) from None


def read_mode(name: str) -> Mode:
    """Return the value of a variable that is auto (also where it is unset), wait or off; raises ArgumentError else."""
    value = read(name) or "auto"
    for mode in _MODES:
        if value == mode:
            return mode
    raise ArgumentError(f"{name} is {value!r}; it must be auto, wait or off")


def is_known(name: str) -> bool:
    """Whether a variable is in the table."""
    return name in _NAMES


def set_default(name: str, value: str) -> None:
    """Give a variable of the table a value in this process where it has none."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    os.environ.setdefault(name, value)


def unknown_names() -> tuple[str, ...]:
    """Return the variables that are set, start with OPSMITH_ and are not in the table: probably misspelt."""
    return tuple(sorted(name for name in os.environ if name.startswith("OPSMITH_") and name not in _NAMES))
