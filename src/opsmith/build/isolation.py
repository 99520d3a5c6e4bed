"""Finds out whether a build uses another torch than the one that its result will meet.

A frontend builds in isolation, with the torch that the project's build-system.requires names: the newest from PyPI, as a
rule. What it builds over torch's C++ API loads in that torch alone.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opsmith.toolchain.torch_install import TorchInstall, installed_version

__all__ = ["describe_other_torch"]

# Folders below which frontends make environments for single builds: those of `build` and, in its cache, of uv.
_UV_BUILDS = "builds-v0"


def describe_other_torch(used: TorchInstall) -> str | None:
    """Return what to tell the user if this build is for another torch than the installed one, else None."""
    for folder in _target_folders(used):
        installed = installed_version(folder)
        if installed is not None and installed != used.version:
            return (
                f"this build is for torch {used.version}, which is in the build's own environment ({used.root}), but "
                f"torch {installed} is installed ({folder / 'torch'}), and what is built here will not load in it. Build "
                "for the installed torch with `pip install --no-build-isolation .`, or require "
                f"torch=={installed.partition('+')[0]} in build-system.requires"
            )
        if installed is not None:
            return None
    return None


def _target_folders(used: TorchInstall) -> Iterator[Path]:
    """Yield the folders of packages that the result will be installed into, as far as can be seen from here."""
    own = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    own += [Path(folder) for folder in site.getsitepackages()]
    if not any(used.root.is_relative_to(folder) for folder in own):
        # pip: the environment's Python, with other folders on its path.
        yield from own
    elif _is_temporary(Path(sys.prefix)):
        # build and uv: a Python of its own.
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            if prefix := os.environ.get(name):
                yield Path(prefix, "lib", python, "site-packages")


def _is_temporary(prefix: Path) -> bool:
    return prefix.is_relative_to(tempfile.gettempdir()) or _UV_BUILDS in prefix.parts
