"""Has malloc give out other bytes each time, so that a read of uninitialized memory shows."""

from __future__ import annotations

import ctypes

__all__ = ["perturb_malloc", "perturbed_no_more"]

_M_PERTURB = -6
# What glibc keeps for each thread, and does not fill; up to seven of each size.
_CACHED = range(24, 1033, 16)
# So many of each size: a call takes some before the kernel asks.
_DEEP = 3


def perturb_malloc(number: int) -> None:
    """Fill what the next calls of malloc return with a byte that depends on a number.

    glibc fills what is larger than its caches for each thread; the first of those of each size are filled by hand. Where
    the C library is another one, nothing happens.
    """
    byte = (37 * (number + 1)) % 256
    library = _library()
    if library is None:
        return
    library.mallopt(_M_PERTURB, byte)
    for size in _CACHED:
        pointers = [library.malloc(size) for _ in range(_DEEP)]
        for pointer in pointers:
            ctypes.memset(pointer, byte, size)
            library.free(pointer)


def perturbed_no_more() -> None:
    """Have malloc return memory as it is again."""
    library = _library()
    if library is not None:
        library.mallopt(_M_PERTURB, 0)


def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    except (AttributeError, OSError):
        return None
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    return library
