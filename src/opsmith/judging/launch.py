"""Starts the process of a candidate: in a folder for its files, with a scratch folder and an environment of its own."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from opsmith.judging.fork_server import Request, Started, start_forked, start_program

__all__ = ["Limits", "start_process"]

_START = "from opsmith.judging.inside.main import main; main(rest)"
# What a candidate's compilers and libraries need; nothing else of the judge's environment is told.
_ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CC", "CXX", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TORCH_CUDA_ARCH_LIST"),
)
# What they write to goes to the scratch folder.
_FOLDERS = (
    *("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR"),
    *("CUDA_CACHE_PATH", "CUTE_DSL_CACHE_DIR", "OPSMITH_CACHE_DIR"),
)
# Libraries ask who the user is, and no service that knows can be reached. Processes of PyTorch's compiler would import
# PyTorch once more, in the candidate's time.
_SAID = {
    "USER": "candidate",
    "LOGNAME": "candidate",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class Limits:
    """What a candidate may take: seconds for loading and for a call, bytes of memory of its own, of a GPU's and of files,
    processes, and threads of PyTorch.
    """

    load_s: float = 60.0
    call_s: float = 20.0
    memory_bytes: int = 8 << 30
    gpu_bytes: int = 8 << 30
    disk_bytes: int = 8 << 30
    processes: int = 256
    threads: int = 1


def start_process(
    folder: Path, device: str, limits: Limits, output: IO[bytes], *, forks: bool = True
) -> tuple[Started, socket.socket]:
    """Start a candidate's process in a folder; return it with the link to it.

    From the second one on it is forked from a process that has PyTorch imported (see `fork_server`), if it `forks`.
    The candidate's files belong into `candidate/`, which its walls let it read, and what it writes goes to `scratch/`.
    """
    own, scratch = folder / "candidate", folder / "scratch"
    for one in (own, scratch):
        one.mkdir(exist_ok=True)
    link, theirs = socket.socketpair()
    arguments = str(scratch), device, *map(str, (limits.memory_bytes, limits.gpu_bytes, limits.threads))
    kept = _kept()
    environment = kept | {name: str(scratch) for name in _FOLDERS}
    with ExitStack() as undone, theirs:
        undone.enter_context(link)
        started: Started | None = None
        if forks:
            started = start_forked(Request(arguments, str(own), environment), kept, theirs, output)
        if started is None:
            started = start_program(_START, theirs, arguments, environment=environment, folder=own, output=output)
        undone.pop_all()
        return started, link


def _kept() -> dict[str, str]:
    """Return the environment of candidates' processes but for their folders."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    # Freed memory is kept: results of each batch would have to be mapped anew.
    malloc = {"MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
    return {**kept, **malloc, **_SAID}
