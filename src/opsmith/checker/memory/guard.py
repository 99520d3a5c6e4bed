"""Guards what a kernel allocates: blocks are filled with a byte, and lie between margins that show a stray write.

On the CPU an allocator in C++ (guard.cpp) stands in for PyTorch's, built in a second and kept in the store: a
TorchDispatchMode does not see what a library over the stable ABI allocates.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from opsmith.checker.memory.damage import Damage, Guard
from opsmith.errors import OpsmithError, ToolchainError

__all__ = ["MARGIN_BYTES", "between_fences", "guarded", "sheltered", "why_unguarded"]

MARGIN_BYTES = 4096
# The kinds of guards of guard.cpp.
_WATCH, _SHELTER, _FENCE = range(3)


class _CpuGuard(Guard):
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def damage(self, results: Iterable[int] = ()) -> Damage | None:
        found = (ctypes.c_int64 * 4)()
        if not self._library.opsmith_guard_damage(found):
            return None
        address, size, offset, is_free = found
        return Damage(address, size, offset, bool(is_free))


@contextmanager
def guarded(device: str, body: int, margin: int) -> Iterator[Guard]:
    """Guard what is allocated on a device: blocks filled with the byte `body`, between margins of the byte `margin`.

    A GPU's free memory is filled, and has no margins. Raises ToolchainError if the allocator cannot be built; ask
    `why_unguarded` first.
    """
    if device != "cpu":
        from opsmith.checker.memory.gpu_pool import GpuGuard

        yield GpuGuard(body)
        return
    with _started(body, margin, _WATCH) as library:
        yield _CpuGuard(library)


@contextmanager
def between_fences() -> Iterator[None]:
    """Have what is allocated on the CPU end at memory that nobody may touch, which ends the process."""
    with _started(0, 0, _FENCE):
        yield


@contextmanager
def sheltered(device: str) -> Iterator[None]:
    """Guard what is allocated where that is possible, without looking for damage.

    A kernel that writes outside of its memory would otherwise spoil the heap, and another property would seem to fail.
    """
    if device != "cpu" or why_unguarded(device):
        yield
        return
    with _started(0, 0xFB, _SHELTER):
        yield


@contextmanager
def _started(body: int, margin: int, kind: int) -> Iterator[ctypes.CDLL]:
    library = _library()
    library.opsmith_guard_start(body, margin, kind)
    try:
        yield library
    finally:
        library.opsmith_guard_stop()


def why_unguarded(device: str) -> str:
    """Return why memory of a device cannot be guarded, or "" where it can."""
    if device != "cpu":
        return ""
    try:
        _library()
    except OpsmithError as error:
        return f"the allocator that watches memory cannot be built: {str(error).splitlines()[0]}"
    return ""


@cache
def _library() -> ctypes.CDLL:
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.existing import assemble_sources, file_sources, prepare_existing
    from opsmith.store import Store, default_root

    sources = file_sources([Path(__file__).with_suffix(".cpp")])
    extension = assemble_sources("opsmith_guard", sources, library="opsmith_guard.so", cxx_flags=["-O2"])
    prepared = prepare_existing(extension)
    artifact = obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, Store(default_root()))
    try:
        library = ctypes.CDLL(str(artifact.library))
    except OSError as error:
        raise ToolchainError(f"{artifact.library} does not load: {error}") from error
    library.opsmith_guard_start.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int]
    library.opsmith_guard_damage.argtypes = [ctypes.POINTER(ctypes.c_int64)]
    return library
