"""Refuses a torch that is older than the ABI that opsmith's libraries use."""

from __future__ import annotations

import re

from opsmith._standalone import PROJECT
from opsmith._version import __version__
from opsmith.errors import UnsupportedTorchError

__all__ = ["MINIMUM_TORCH", "refuse_older", "release_of"]

# The first release with the stable ABI that opsmith's bindings are made of (TORCH_TARGET_VERSION).
MINIMUM_TORCH = (2, 10)

_RELEASE = re.compile(r"(\d+)\.(\d+)")


def release_of(version: str) -> tuple[int, int] | None:
    """Return major and minor version, or None for what is not a version."""
    found = _RELEASE.match(version)
    return (int(found[1]), int(found[2])) if found else None


def refuse_older(version: str, where: str) -> None:
    """Raise UnsupportedTorchError if the torch of this version, which lies in `where`, is too old."""
    release = release_of(version)
    if release is None or release >= MINIMUM_TORCH:
        return
    minimum = ".".join(map(str, MINIMUM_TORCH))
    whose = PROJECT or f"opsmith {__version__}"
    raise UnsupportedTorchError(
        f"{whose} needs torch {minimum} or newer; this Python has torch {version}, in {where}. Upgrade it in "
        f'this environment (pip install --upgrade "torch>={minimum}"), to a build for your GPU: '
        "https://pytorch.org/get-started/locally"
    )
