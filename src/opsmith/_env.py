"""Which environment variables opsmith reads: one typed table, and the only place that touches `os.environ`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["VARIABLES", "Variable", "overridden", "read", "set_default", "unknown_names"]


class Variable(NamedTuple):
    """One environment variable: its name and what it does."""

    name: str
    help: str


VARIABLES: tuple[Variable, ...] = (
    Variable("OPSMITH_CACHE_DIR", "folder of the store; default: opsmith in the user's cache folder"),
    Variable("OPSMITH_CACHE_SIZE", "how large the store may grow before the least recently used goes; default: 5 GB"),
    Variable(
        "OPSMITH_CACHE_TRUST",
        "who may write to the store besides you and root: user:NAME, group:NAME, everyone; default: nobody",
    ),
    Variable("OPSMITH_STORE", "folder or URL (s3://...) of a shared store; only what a trusted key signed is loaded"),
    Variable("OPSMITH_SIGNING_KEY", "file of the key that signs what goes to the shared store"),
    Variable("OPSMITH_CONFIG_DIR", "folder of the keys; default: opsmith in the user's configuration folder"),
    Variable("OPSMITH_CUDA_ARCHS", "CUDA architectures to build for, such as '9.0' or '8.0;9.0+PTX'"),
    Variable("OPSMITH_ROCM_ARCHS", "ROCm architectures to build for, such as 'gfx90a;gfx942'"),
    Variable(
        "OPSMITH_BRIDGE",
        "auto: build the bridge in the background where the store has none; wait: build it now; off: do without it",
    ),
    Variable(
        "OPSMITH_PCH",
        "auto: precompile torch's headers in the background for the next build; wait: do it now; off: do without",
    ),
    Variable("OPSMITH_SLIM_HEADERS", "off: compile sources that include torch/extension.h with the whole of it"),
    Variable("OPSMITH_JOBS", "how many compilers run at once; default: as many as cores and free memory allow"),
    Variable("OPSMITH_VERBOSE", "1: show every command of a build"),
    Variable("OPSMITH_QUIET", "1: no message while an operator is built on its first call"),
    Variable(
        "OPSMITH_RUN_REPORT",
        "under `opsmith run`: 1 tells on stderr which processes were redirected; else a file for it",
    ),
    Variable("OPSMITH_RUN_PATH", "set by `opsmith run`: where processes without opsmith find it; not for people"),
    Variable(
        "OPSMITH_COMPILE_COMMANDS", "a folder: each build merges what clangd needs into compile_commands.json there"
    ),
    Variable("OPSMITH_TYPINGS", "a folder: each build merges type stubs for torch.ops there"),
    Variable("CXX", "host C++ compiler, with a launcher or arguments if need be; default: c++, g++ or clang++"),
    Variable("CUDA_HOME", "root of the CUDA toolkit; CUDA_PATH is read too"),
    Variable("CUDA_PATH", "root of the CUDA toolkit, after CUDA_HOME"),
    Variable("CONDA_PREFIX", "the active conda environment; an nvcc in it is found without PATH"),
    Variable("NVCC_CCBIN", "host compiler that nvcc shall use; default: the C++ compiler above"),
    Variable("ROCM_PATH", "root of the ROCm toolkit; ROCM_HOME is read too"),
    Variable("ROCM_HOME", "root of the ROCm toolkit, after ROCM_PATH"),
    Variable("TORCH_CUDA_ARCH_LIST", "as in PyTorch; read where OPSMITH_CUDA_ARCHS is not set"),
    Variable("PYTORCH_ROCM_ARCH", "as in PyTorch; read where OPSMITH_ROCM_ARCHS is not set"),
    Variable("MAX_JOBS", "as in PyTorch; read where OPSMITH_JOBS is not set"),
    Variable("OPSMITH_SKIP_CUDA_CHECK", "1: build with an nvcc of another CUDA major version than torch's"),
    Variable("PYTORCH_NVCC", "command to call instead of nvcc for existing sources, such as 'ccache nvcc'"),
    Variable("CC", "C compiler of setuptools; for existing sources also nvcc's host compiler, after NVCC_CCBIN"),
    Variable("CFLAGS", "more flags for C and C++ sources that setuptools builds"),
    Variable("CXXFLAGS", "more flags for C++ sources that setuptools builds"),
    Variable("CPPFLAGS", "more preprocessor flags for sources that setuptools builds"),
    Variable("LDFLAGS", "more flags for the linker where setuptools builds"),
    Variable("NVCC_PREPEND_FLAGS", "read by nvcc itself; part of what a build is found by"),
    Variable("NVCC_APPEND_FLAGS", "read by nvcc itself; part of what a build is found by"),
    Variable("HIPCC_COMPILE_FLAGS_APPEND", "read by hipcc itself; part of what a build is found by"),
    Variable("CPATH", "read by compilers themselves; part of what a build of existing sources is found by"),
    Variable("C_INCLUDE_PATH", "as CPATH"),
    Variable("CPLUS_INCLUDE_PATH", "as CPATH"),
    Variable("LIBRARY_PATH", "as CPATH"),
    Variable("COMPILER_PATH", "as CPATH"),
    Variable("GCC_EXEC_PREFIX", "as CPATH"),
    Variable("CUDA_INC_PATH", "folder of CUDA headers, beside the toolkit's"),
    Variable("CUDNN_HOME", "root of cuDNN; its include and lib64 are added; CUDNN_PATH is read too"),
    Variable("CUDNN_PATH", "root of cuDNN, after CUDNN_HOME"),
    Variable("WINDOWS_CUDA_HOME", "root of a CUDA toolkit for Windows; library_paths() names it"),
    Variable("TORCH_EXTENSIONS_DIR", "folder for a store of the drop-in's builds, where OPSMITH_CACHE_DIR is not set"),
    Variable("TORCH_XPU_ARCH_LIST", "as in PyTorch: devices to compile SYCL sources for ahead of time"),
    Variable("TORCH_DONT_CHECK_COMPILER_ABI", "as in PyTorch: ON, 1, YES, TRUE or Y trusts every compiler"),
    Variable(
        "TORCH_NO_COMPILER_WRAPPER", "as in PyTorch: set to anything, no ccache or sccache is put before compilers"
    ),
    Variable("TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES", "as in PyTorch, where its own ninja files are written"),
    Variable(
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "as in PyTorch; `opsmith check` sets it to 1 where it is not set, to fork processes",
    ),
    Variable("PATH", "where programs are looked for"),
    Variable("NO_COLOR", "set to anything: no colour in the output"),
)

_NAMES = frozenset(variable.name for variable in VARIABLES)


def read(name: str) -> str | None:
    """Return the value of a variable of the table, or None where it is unset or empty."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    return os.environ.get(name) or None


def set_default(name: str, value: str) -> None:
    """Give a variable of the table a value in this process where it has none."""
    if name not in _NAMES:
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    os.environ.setdefault(name, value)


def unknown_names() -> tuple[str, ...]:
    """Return the variables that are set, bear opsmith's name, and mean nothing to it: slips of the pen."""
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
