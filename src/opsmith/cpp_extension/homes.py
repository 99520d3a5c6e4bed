"""Reads what the user assigned to the drop-in, and finds its store: all that loading a finished library needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from opsmith import _env
from opsmith._override import overridden
from opsmith.cpp_extension.names import DROP_IN, assigned_value

__all__ = ["assigned", "assigned_homes", "assigned_nvcc_flags", "store_root"]

# What can be assigned to the drop-in, and the variable that says it to opsmith's toolchain.
_ASSIGNABLE = {"CUDA_HOME": "CUDA_HOME", "CUDNN_HOME": "CUDNN_HOME", "ROCM_HOME": "ROCM_PATH"}


def assigned() -> dict[str, str]:
    """Return what was assigned to the drop-in, such as `cpp_extension.CUDA_HOME = "/opt/cuda"`, by variable."""
    values = {variable: assigned_value(name) for name, variable in _ASSIGNABLE.items()}
    return {variable: os.fspath(value) for variable, value in values.items() if value}


def assigned_nvcc_flags() -> list[str] | None:
    """Return `cpp_extension.COMMON_NVCC_FLAGS`, or None if it was never accessed, and so never changed."""
    constants = sys.modules.get(f"{DROP_IN}.constants")
    flags = assigned_value("COMMON_NVCC_FLAGS", getattr(constants, "COMMON_NVCC_FLAGS", None))
    return None if flags is None else list(flags)


@contextmanager
def assigned_homes() -> Iterator[None]:
    """Let what was assigned decide for a while."""
    with ExitStack() as stack:
        for variable, value in assigned().items():
            stack.enter_context(overridden(variable, value))
        yield


def store_root() -> Path:
    """Return the folder of the store: OPSMITH_CACHE_DIR, else within TORCH_EXTENSIONS_DIR, else opsmith's own."""
    from opsmith.store import default_root

    chosen = _env.read_path("TORCH_EXTENSIONS_DIR")
    if chosen is None or _env.read("OPSMITH_CACHE_DIR") is not None:
        return default_root()
    return chosen / "opsmith"
