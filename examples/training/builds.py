"""Builds a training's operators from scratch, into a folder where a separate process finds the library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BUILDS = ("jit", "setuptools", "cmake")
REFERENCE = "reference"  # the operators' definitions, in plain PyTorch: nothing is built


def build(modules: Sequence[str], builder: str, folder: Path) -> tuple[dict[str, str], float]:
    """Build the operators of some modules from nothing; return the environment that has them, and the seconds it took.

    The JIT's library goes into a store, and a training finds it in the user's own or builds it at the first call. The
    others put it where an installation has it, beside the module: here in a copy of the package.
    """
    import opsmith

    environment = dict(os.environ)
    package = folder / "opsmith"
    if builder != "jit":
        ignored = shutil.ignore_patterns("__pycache__", "_*ops.so")
        shutil.copytree(Path(opsmith.__file__).parent, package, ignore=ignored)
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    seconds = 0.0
    for module in modules:
        command = [sys.executable, "-m", "opsmith", "build", module, "--with", builder]
        if builder != "jit":
            command += ["--output", str(package.joinpath(*module.split(".")[1:-1]))]
        started = time.perf_counter()
        empty = {**environment, "OPSMITH_CACHE_DIR": str(folder / "store")}
        subprocess.run(command, env=empty, stdout=subprocess.DEVNULL, check=True)
        seconds += time.perf_counter() - started
    return environment, seconds
