"""Tells on which machines a binary built here runs."""

from __future__ import annotations

import platform
import re
from functools import cache

from opsmith.errors import StoreError

__all__ = ["check_platform", "platform_name"]


@cache
def platform_name() -> str:
    """Return the system, the processor's architecture and the C library, such as "linux-x86_64-glibc2.36"."""
    library, version = platform.libc_ver()
    return f"{platform.system().lower()}-{platform.machine()}-{library or 'libc'}{version}"


def check_platform(made_on: str, where: str) -> None:
    """Raise StoreError if a binary of that platform would not load here.

    A newer C library has symbols that ours lacks.
    """
    here = platform_name()
    (base, version), (our_base, our_version) = _split(made_on), _split(here)
    if base != our_base or version > our_version:
        raise StoreError(
            f"{where} was made on {made_on}, and this machine is {here}: its binaries cannot be loaded here"
        )


def _split(name: str) -> tuple[str, tuple[int, ...]]:
    found = re.fullmatch(r"(.*?)(\d+(?:\.\d+)*)", name)
    if found is None:
        return name, ()
    return found[1], tuple(map(int, found[2].split(".")))
