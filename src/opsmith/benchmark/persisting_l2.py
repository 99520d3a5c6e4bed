"""Takes the part of a GPU's second-level cache back that a program has set aside for itself.

Lines that persist there survive a flush of any size, and a kernel that finds its inputs in them seems to read memory
several times as fast as it is (karpathy/llm.c, pull request 851). The limit must be 0 too: a reset of the lines alone
leaves the part to the next ones.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

__all__ = ["cuda_runtime", "persisting_l2_bytes", "reset_persisting_l2"]

_LIMIT = 6  # cudaLimitPersistingL2CacheSize


@cache
def cuda_runtime() -> ctypes.CDLL | None:
    """Return the CUDA runtime that PyTorch has loaded, or None where there is none (a CPU, ROCm)."""
    try:
        found = re.search(r"\S*/libcudart[^/\s]*\.so\S*", Path("/proc/self/maps").read_text(encoding="utf-8"))
    except OSError:
        return None
    return ctypes.CDLL(found[0]) if found is not None and Path(found[0]).exists() else None


def persisting_l2_bytes() -> int:
    """Return how much of the cache is set aside on the current GPU; 0 where that cannot be done."""
    runtime, size = cuda_runtime(), ctypes.c_size_t(0)
    if runtime is None or runtime.cudaDeviceGetLimit(ctypes.byref(size), _LIMIT) != 0:
        _forget_error(runtime)
        return 0
    return size.value


def reset_persisting_l2() -> None:
    """Set nothing of the cache aside on the current GPU, and make what persists in it ordinary."""
    runtime = cuda_runtime()
    if runtime is None:
        return
    # An older GPU has no such part, and says so.
    if runtime.cudaDeviceSetLimit(_LIMIT, ctypes.c_size_t(0)) != 0 or runtime.cudaCtxResetPersistingL2Cache() != 0:
        _forget_error(runtime)


def _forget_error(runtime: ctypes.CDLL | None) -> None:
    """Take back the runtime's last error, which PyTorch would raise after its next launch."""
    if runtime is not None:
        runtime.cudaGetLastError()
